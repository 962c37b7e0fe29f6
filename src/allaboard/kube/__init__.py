"""Being a citizen of a cluster: clients, informers, queues and the loop that carries out plans."""
