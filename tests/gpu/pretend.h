/* Copies of NCCL in one process, each of which believes that it is on a host, or has a GPU, of its
 * own, while all use the first GPU here.
 *
 * NCCL 2.28 refuses two ranks of one host on one GPU, and keeps what it knows of host and process
 * once for all of a process. So each rank gets a copy of the library, and what a copy asks for is
 * answered by who asks: getenv("NCCL_HOSTID") names the rank's host, and the driver's PCI address
 * of the GPU that of the rank's GPU in a topology file. Ranks of one host then write to each
 * other's memory directly, as over NVLink but within the GPU; those of different hosts go through
 * NCCL's network. Kernels of one process share one context: they run side by side, unlike those of
 * several processes, which take turns. Of what NCCL logs (NCCL_DEBUG) the first copy's is kept. */
#ifndef TUTTI_TESTS_GPU_PRETEND_H
#define TUTTI_TESTS_GPU_PRETEND_H

enum { PRETEND_RANKS_MAX = 16 };

/* PCI addresses of the GPUs that an NCCL topology XML lists, in its order; returns how many, at
 * most `max`, or -1: it cannot be read. */
int pretend_gpus_of(const char *topology, char (*ret_bus)[32], int max);

/* Makes copy number `rank` of the library at `path` in the folder `scratch` (the file is unlinked
 * as soon as it is loaded), to believe that its host is `host` and, unless NULL, its GPU's address
 * `bus`. The handle, for dlsym(), or NULL, with a line on stderr. Not to be called by two threads
 * at once. */
void *pretend_open(const char *path, const char *scratch, int rank, const char *host,
                   const char *bus);

#endif
