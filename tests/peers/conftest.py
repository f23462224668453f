"""Keep pytest from importing the modules that stand in for other packages, installed or not."""

from pathlib import Path

collect_ignore = [
    "run.py",
    *(
        path.name
        for path in Path(__file__).parent.glob("*_names.py")
        if not path.name.startswith("test_")
    ),
]
