"""Drop-in modules: code written for another package changes an import and nothing else.

``fastmcmd.compat.probcal`` stands in for the published code of the CCE paper,
``fastmcmd.compat.uncertainty_toolbox`` for Uncertainty Toolbox. Nothing is imported here, so that each is
loaded only where it is asked for.
"""
