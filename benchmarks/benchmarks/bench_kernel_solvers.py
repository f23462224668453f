"""The CCE against solvers of other packages at equal error, in one process and in turns."""

from __future__ import annotations

import time

import numpy as np

import fastmcmd as fm

from . import kernel_solvers
from .bench_peers import in_turns
from .problems import smooth


class CongruencePeers:
    """Wall time of the CCE with the error of a peer as its tolerance, divided by the peer's.

    d = 8, one draw. Peers receive features of the outputs and certify nothing. Direct peers are measured up
    to 20,000 rows.
    """

    timeout = 600
    params = [
        [*kernel_solvers.SOLVERS, "Nystroem 100", "Nystroem 400", "Nystroem 1600"],
        [5_000, 20_000, 100_000],
    ]
    param_names = ["peer", "n"]
    points = 1_000

    def setup(self, peer, n):
        is_nystroem = peer.startswith("Nystroem")
        if n > 20_000 and not is_nystroem:
            raise NotImplementedError  # minutes
        if is_nystroem:
            function, precision = kernel_solvers.nystroem(int(peer.split()[1])), np.float32
        else:
            function, precision = kernel_solvers.SOLVERS[peer]
        x, y, draws = self.data = smooth(n, kernel_solvers.D)
        y_kernel = fm.RBF(1 / (2 * np.var(y, ddof=1)))
        p = kernel_solvers.feature_differences(y_kernel, y, draws).astype(precision)
        self.options = {
            "x_kernel": fm.RBF(kernel_solvers.GAMMA),
            "y_kernel": y_kernel,
            "lam": kernel_solvers.LAM,
        }
        self.theirs = lambda: function(x.astype(precision), p)
        some = np.random.default_rng(1).choice(n, self.points, replace=False)
        true = fm.cce(*self.data, at=x[some], tol=1e-8, **self.options).values
        try:
            error = float(np.abs(self.theirs()[some] - true).max())
        except ImportError:
            raise NotImplementedError from None
        self.tol = max(error, 1e-8)

    def track_ratio_at_its_error(self, peer, n):
        pair = (lambda: fm.cce(*self.data, tol=self.tol, **self.options)), self.theirs
        # BLAS threads stop to spin in the pause.
        ours, theirs = in_turns(pair, rounds=3, clock=time.perf_counter, pause=0.05)
        return min(ours) / min(theirs)

    def track_tolerance(self, peer, n):
        return self.tol
