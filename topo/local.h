/* This machine as a topology: its GPUs, NVLinks, PCIe, network ports, NUMA nodes and processors, as
 * the kernel (sysfs) and NVIDIA's driver (NVML) tell of them. Not in the core profile: it reads
 * files, and opens NVML by dlopen where there is such. */
#ifndef TUTTI_TOPO_LOCAL_H
#define TUTTI_TOPO_LOCAL_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"

TUTTI_API_BEGIN

struct tutti_err;
struct tutti_topo;
struct tutti_facts;

struct tutti_topo_local_opts {
    size_t size; /* sizeof(struct tutti_topo_local_opts): runtime/api.h */
    /* The folder that sys/ and proc/ lie in; NULL: what the environment variable TUTTI_LOCAL_ROOT
     * names, or /. */
    const char *root;
    /* NVML; NULL: what TUTTI_NVML_LIBRARY names, or libnvidia-ml.so.1, which need not be there;
     * "": none. */
    const char *nvml;
};

/* Facts: what was read of a machine, and no more, as a text that can be read again elsewhere, a
 * line for each file, folder or link of sysfs and each answer of NVML.
 *
 *   tutti facts 1
 *   sys/bus/pci/devices/0000:18:00.0@ = sys/devices/pci0000:15/...    where a link leads
 *   sys/devices/pci0000:15/.../max_link_width = 16                    the text of a file
 *   sys/class/net/ = eth0 lo                                          what is in a folder
 *   nvml/0/link/0 = switch 0000:05:00.0                               NVML
 *
 * Where a text has more lines than one, \n stands between them. What is not there was not there. */

/* Reads this machine. opts may be NULL. -TUTTI_EIO for a root that is no folder, -TUTTI_ELACK for a
 * library that was named and cannot be opened. */
int tutti_facts_read(const struct tutti_topo_local_opts *opts, struct tutti_facts **ret,
                     struct tutti_err *err);
/* Reads the text; `name` is used in messages, which name the line. -TUTTI_EINVAL. */
int tutti_facts_parse(const char *name, const char *text, size_t bytes, struct tutti_facts **ret,
                      struct tutti_err *err);
/* Writes what has been asked for, in order of names. *ret is freed by the caller with free(). */
int tutti_facts_print(const struct tutti_facts *facts, char **ret, struct tutti_err *err);
void tutti_facts_free(struct tutti_facts *facts); /* NULL is a no-op */

/* Makes a topology of them, called `name`. Its source says what is not known, and what was taken
 * for it.
 *   - With GPUs of NVIDIA: a rank a GPU, and the hardware, as NCCL's topology XML of this machine
 *     would give (traces/nccl_xml.h). rank_count: 0, all GPUs, or the first so many; more than one
 *     where there is one GPU: virtual ranks, which share its memory's rate: a message is read and
 *     written there once.
 *   - Without: a rank a core, or the first `rank_count` of them, under its NUMA node. The kernel
 *     does not tell rates of memory: 10 GB/s a core are assumed.
 * -TUTTI_ELACK for a machine of which nothing is known, -TUTTI_EINVAL for too many ranks and for
 * facts that do not fit together. */
int tutti_topo_of_facts(struct tutti_facts *facts, const char *name, uint32_t rank_count,
                        struct tutti_topo **ret, struct tutti_err *err);

TUTTI_API_END

#endif
