"""The job kinds that came before TrainJob: PyTorchJob and MPIJob, run as their own operators ran them."""
