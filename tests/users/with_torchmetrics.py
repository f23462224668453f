"""A loop over batches, as with torchmetrics."""

import torch
import torchmetrics
from torch import nn

import fastmcmd as fm
from fastmcmd.compat import torchmetrics as fmt

torch.manual_seed(0)
x = torch.randn(600, 4)
label = (x[:, 0] + 0.5 * torch.randn(600) > 0).long()
model = nn.Linear(4, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for _ in range(50):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), label)
    loss.backward()
    optimizer.step()

ece = fmt.ClassificationECE()
crps = fm.streaming.CRPS()
head = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
y = x[:, 0] + 0.3 * torch.randn(600)
for batch in range(6):
    rows = slice(100 * batch, 100 * (batch + 1))
    with torch.no_grad():
        ece.update(model(x[rows]).softmax(1), label[rows])
        mean, log_std = head(x[rows]).T
        crps.update(y[rows], torch.distributions.Normal(mean, log_std.exp()))
print(ece.compute(), crps.compute())

theirs = torchmetrics.CalibrationError(task="multiclass", num_classes=2)
theirs.update(model(x).softmax(1), label)
assert abs(float(theirs.compute()) - float(ece.compute())) < 1e-6
ece.reset()
