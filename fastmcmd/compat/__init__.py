"""Drop-in modules and adapters: code written for another package changes an import and nothing else.

``fastmcmd.compat.probcal`` stands in for the published code of the CCE paper,
``fastmcmd.compat.uncertainty_toolbox`` for Uncertainty Toolbox; ``sklearn`` has scorers,
``torchmetrics`` metrics for training loops, ``skpro`` a metric and distributions of that library.
Nothing is imported here, so that each is loaded only when it is requested.
"""
