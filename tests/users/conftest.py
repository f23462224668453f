"""Scripts are run by test_users.py, not imported."""

collect_ignore_glob = ["with_*"]
