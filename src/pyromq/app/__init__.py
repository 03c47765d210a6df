"""Apps: listeners as decorated functions, with their bodies decoded and what they need handed to them.

    app = pyromq.App("127.0.0.1:9876", name="shop")

    @app.consume("orders", group="billing", tags="new")
    async def bill(order: Order, producer: pyromq.aio.Producer) -> None: ...

    app.run()                                       # or: pyromq run shop:app --workers 3

    app.py ──▶ signatures: which parameter is what ──▶ calls: one closure for each listener ──▶ aio.PushConsumer
       └─────▶ providers, middleware: the user's own        run.py: opens and closes all of it in order

The classes of ``pyromq.aio`` do the work: an app is a thin layer that is built once, at its start.
"""

from __future__ import annotations

from pyromq.app.app import App

__all__ = ["App"]
