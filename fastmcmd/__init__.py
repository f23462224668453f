"""fastmcmd."""
