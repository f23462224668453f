"""Keep pytest from importing the modules that stand in for other packages."""

collect_ignore = ["run.py", "scoringrules_names.py", "skpro_names.py", "torchmetrics_names.py"]
