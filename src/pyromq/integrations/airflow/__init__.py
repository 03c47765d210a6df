"""Apache Airflow: a message starts a DAG run.

    trigger = MessageQueueTrigger(scheme="pyromq", topics="orders", group="airflow-orders", nameservers="10.0.0.1:9876")
    asset = Asset("orders", watchers=[AssetWatcher(name="orders", trigger=trigger)])

``provider_info`` is what Airflow finds by its entry point, ``queue`` and ``trigger`` need Airflow itself, the rest does
not. ``pip install 'pyromq[airflow]'`` brings Airflow's common messaging provider.
"""
