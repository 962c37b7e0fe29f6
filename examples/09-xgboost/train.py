"""Boosted trees over several nodes: every rank sees a part of the data and ends with the same trees."""

import hashlib
import os
import socket
import threading

import numpy
import xgboost

rank, world = int(os.environ["DMLC_TASK_ID"]), int(os.environ["DMLC_NUM_WORKER"])
host, port = os.environ["DMLC_TRACKER_URI"], int(os.environ["DMLC_TRACKER_PORT"])

# Rank 0 keeps the tracker; XGBoost reads none of the variables itself.
if rank == 0:
    from xgboost.tracker import RabitTracker

    tracker = RabitTracker(host_ip=socket.gethostbyname(host), port=port, n_workers=world, sortby="task")
    tracker.start()
    threading.Thread(target=tracker.wait_for, daemon=True).start()

settings = {"dmlc_tracker_uri": socket.gethostbyname(host), "dmlc_tracker_port": port}
settings |= {"dmlc_task_id": str(rank), "dmlc_retry": 60}
with xgboost.collective.CommunicatorContext(**settings):
    dice = numpy.random.default_rng(rank)
    inputs = dice.normal(size=(500, 6))
    labels = (inputs[:, 0] + inputs[:, 1] ** 2 > 0.5).astype(int)
    data = xgboost.DMatrix(inputs, labels)
    booster = xgboost.train({"objective": "binary:logistic", "max_depth": 3, "nthread": 1}, data, num_boost_round=10)
    trees = hashlib.sha256("".join(booster.get_dump()).encode()).digest()[:8]
    number = numpy.array([int.from_bytes(trees, "little") % 2**52], dtype=numpy.float64)
    most = xgboost.collective.allreduce(number.copy(), xgboost.collective.Op.MAX)
    least = xgboost.collective.allreduce(number.copy(), xgboost.collective.Op.MIN)
    assert most[0] == least[0] == number[0], "the trees differ"
    print(f"rank {rank}/{world} on {os.uname().nodename}: same trees {trees.hex()}", flush=True)
