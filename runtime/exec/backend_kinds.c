/* The table of backends; see runtime/backend.h. */
#include <string.h>

#include "runtime/backend.h"

static const struct tutti_backend_kind kinds[] = {
    {.name = "threads", .help = "a thread a rank on this machine", .emulates = true},
    {.name = "tcp",
     .help = "processes and their sockets",
     .grouped = true,
     .launched = true,
     .emulates = true,
     .lends = true},
    {.name = "mpi", .help = "processes and their MPI", .grouped = true, .has_library = true},
    {.name = "cuda", .help = "virtual ranks on one GPU of NVIDIA", .on_gpu = true},
    {.name = "nccl",
     .help = "GPUs of NVIDIA, one a rank, and their NCCL",
     .grouped = true,
     .launched = true,
     .alone = true,
     .on_gpu = true,
     .has_library = true},
    {.name = "sim", .help = "a virtual clock on a machine of --topo", .simulated = true},
};

const struct tutti_backend_kind *tutti_backend_kinds(size_t *ret_count)
{
    *ret_count = sizeof(kinds) / sizeof(kinds[0]);
    return kinds;
}

const struct tutti_backend_kind *tutti_backend_kind_find(const char *name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}
