# A table of predictions: pandas writes it, the shell judges it.
set -e
python - <<'PYTHON'
import numpy as np, pandas as pd
rng = np.random.default_rng(0)
n = 400
age = rng.uniform(20, 80, n)
frame = pd.DataFrame({
    "age": age,
    "region": rng.choice(["north", "south"], n),
    "bill": 10 + age + 5 * rng.standard_normal(n),
    "forecast": 10 + age,
    "spread": 5.0,
    "naive": 60.0,
    "naive_spread": 18.0,
})
frame.to_csv("bills.csv", index=False)
PYTHON
fastmcmd evaluate bills.csv --y bill --x age --prediction gaussian:mean=forecast,std=spread --by region --report bills.html
fastmcmd compare bills.csv --y bill --x age \
    --model good=gaussian:mean=forecast,std=spread --model naive=gaussian:mean=naive,std=naive_spread --output comparison.csv
cat bills.csv | fastmcmd evaluate - --y bill --prediction gaussian:mean=forecast,std=spread --format json > result.json
python -c "import json; print(json.load(open('result.json')))"
