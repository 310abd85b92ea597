/* tutti doctor: what this build has, what this machine has, and how to get the rest. */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "build.h"
#include "runtime/backend.h"
#include "runtime/blas.h"
#include "runtime/coll.h"
#include "runtime/cuda.h"
#include "runtime/data.h"
#include "runtime/gzip.h"
#include "runtime/launch.h"
#include "runtime/mpi.h"
#include "runtime/nccl.h"
#include "runtime/status.h"
#include "runtime/tcp.h"
#include "runtime/units.h"
#include "sim/nccl.h"
#include "tools/cli/machine.h"
#include "tools/cli/output.h"
#include "tools/cli/page.h"
#include "tools/cli/shared_options.h"
#include "tools/commands.h"
#include "tools/options.h"
#include "tools/run/pmix.h"
#include "topo/topo.h"

static const struct tutti_column columns[] = {
    {"item", "item", "", TUTTI_CELL_TEXT},
    {"value", "value", "", TUTTI_CELL_TEXT},
    {"note", "note", "", TUTTI_CELL_TEXT},
};

static int add(struct tutti_table *table, const char *item, const char *value, const char *note)
{
    return tutti_table_add(table, item, value, note);
}

static int add_build(struct tutti_table *table)
{
    bool expat = TUTTI_BUILD_HAVE_EXPAT;
    char mpi_name[TUTTI_MPI_NAME_BYTES];
    const char *mpi = tutti_mpi_name(mpi_name);
    const char *pmix = tutti_pmix_version();
    bool plain = TUTTI_BUILD_SANITIZE[0] == '\0';

    return add(table, "version", TUTTI_BUILD_VERSION, "") |
           add(table, "compiler", TUTTI_BUILD_COMPILER, "") |
           add(table, "build type", TUTTI_BUILD_TYPE,
               strcmp(TUTTI_BUILD_TYPE, "Debug") == 0 ? "slow: for measurements build Release"
                                                      : "") |
           add(table, "sanitizers", plain ? "none" : TUTTI_BUILD_SANITIZE,
               plain ? "" : "slow: for measurements build without") |
           add(table, "libexpat", expat ? "yes" : "no",
               expat ? "reads NCCL topology XML"
                     : "NCCL topology XML cannot be read; apt install libexpat1-dev, build again") |
           add(table, "plugins", tutti_algorithm_loads() ? "yes" : "no",
               tutti_algorithm_loads() ? "-a FILE.so adds algorithms of one's own (runtime/coll.h)"
                                       : "algorithms of one's own are linked in, for want of "
                                         "dlopen") |
           add(table, "libpmix", pmix != NULL ? pmix : "no",
               pmix != NULL ? "asks a launcher of several hosts where process 0 is"
                            : "such launchers need TUTTI_ROOT; apt install libpmix-dev, build "
                              "again") |
           add(table, "mpi", mpi != NULL ? mpi : "no",
               mpi != NULL ? "under mpirun or srun predict and compare spread over the processes"
                           : "sweeps use one process; apt install libopenmpi-dev openmpi-bin (or "
                             "libmpich-dev mpich), build again");
}

/* Who multiplies in real training. */
static int add_products(struct tutti_table *table)
{
    char name[TUTTI_BLAS_NAME_BYTES];
    bool has = tutti_blas_name(name);

    return add(table, "openblas", has ? name : "no",
               has ? "multiplies in real training"
                   : "real training multiplies in plain C; apt install libopenblas-dev, build "
                     "again");
}

/* Of data sets: MNIST and its like are distributed compressed. */
static int add_gzip(struct tutti_table *table)
{
    const char *version = tutti_gzip_version();

    return add(table, "zlib", version != NULL ? version : "no",
               version != NULL ? "unpacks data files of gzip"
                               : "data files are read as they lie (gunzip them); apt install "
                                 "zlib1g, build again");
}

/* The engine that moves its bytes, and whether there could be the other. */
static int add_tcp(struct tutti_table *table)
{
    struct tutti_err why = {.text = ""};
    bool has = tutti_tcp_uring_check(&why) == 0;
    char text[64];

    (void)snprintf(text, sizeof(text), "%s by default", tutti_tcp_engine_name());
    return add(table, "backend tcp", "yes", "processes over sockets, on one host or many") |
           add(table, "tcp engine", text, "poll and uring, where it is there") |
           add(table, "io_uring", has ? "yes" : "no",
               has ? "the engine 'uring' of the backend tcp can be chosen" : why.text);
}

/* Our schedules over MPI's messages, and MPI_Allreduce and its like as the peer. */
static int add_mpi(struct tutti_table *table)
{
    char name[TUTTI_MPI_NAME_BYTES];
    bool has = tutti_mpi_name(name) != NULL;

    return add(table, "backend mpi", has ? "yes" : "no",
               has ? "processes started by this MPI's own mpirun" : "see mpi");
}

/* The first line of a small file of the kernel, or "unknown". */
static void read_line(const char *path, char *buf, size_t buf_bytes)
{
    FILE *file = fopen(path, "r");

    if (file == NULL || fgets(buf, (int)buf_bytes, file) == NULL)
        (void)snprintf(buf, buf_bytes, "unknown");
    buf[strcspn(buf, "\n")] = '\0';
    if (file != NULL)
        fclose(file);
}

static int add_machine(struct tutti_table *table)
{
    cpu_set_t allowed;
    struct utsname name;
    char text[128];
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    long pages = sysconf(_SC_PHYS_PAGES);
    long page_bytes = sysconf(_SC_PAGESIZE);
    int usable = sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
    int status = 0;

    if (uname(&name) == 0) {
        (void)snprintf(text, sizeof(text), "%.30s %.60s %.20s", name.sysname, name.release,
                       name.machine);
        status |= add(table, "kernel", text, "");
    }
    (void)snprintf(text, sizeof(text), "%d", usable);
    status |= add(table, "processors", text,
                  usable < online ? "this process may use fewer than there are"
                                  : "ranks of 'run -B threads' beyond these share them");
    (void)snprintf(text, sizeof(text), "%.1f GiB",
                   (double)pages * (double)page_bytes / (double)(1ull << 30));
    status |= add(table, "memory", text, "");
    (void)snprintf(text, sizeof(text), "%ld bytes", page_bytes);
    status |= add(table, "page", text, "");
    read_line("/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof(text));
    status |= add(table, "huge pages", text, "large buffers are faster where this is not 'never'");
    status |= add(table, "reduction", tutti_reduce_isa(), "instruction set chosen at run time");
    return status;
}

/* Whether there is a GPU of NVIDIA here, and kernels for it. */
static int add_gpu(struct tutti_table *table)
{
    struct tutti_err why = {.text = ""};
    struct tutti_err why_not = {.text = ""};
    char name[TUTTI_CUDA_NAME_BYTES];
    char nccl[TUTTI_NCCL_NAME_BYTES];
    char version[128];
    int plays = tutti_cuda_name(name, &why);
    int connects = tutti_nccl_name(nccl, &why_not);
    bool has;

    if (plays == -TUTTI_ENOMEM || connects == -TUTTI_ENOMEM)
        return -TUTTI_ENOMEM;
    read_line("/proc/driver/nvidia/version", version, sizeof(version));
    has = strcmp(version, "unknown") != 0;
    return add(table, "gpu driver", has ? version : "no", "of NVIDIA's GPUs") |
           add(table, "backend cuda", plays == 0 ? "yes" : "no", plays == 0 ? name : why.text) |
           add(table, "backend nccl", connects == 0 ? "yes" : "no",
               connects == 0 ? nccl : why_not.text);
}

/* What SPEC `local` is, or why there is none. */
static int add_local(struct tutti_table *table)
{
    struct tutti_err why = {.text = ""};
    struct tutti_topo *topo = NULL;
    char text[64];
    int status = tutti_machine_load("local", 1, &topo, &why);

    if (status == -TUTTI_ENOMEM)
        return status;
    if (status < 0)
        return add(table, "SPEC local", "no", why.text);
    (void)snprintf(text, sizeof(text), "%" PRIu32 " %s", topo->rank_count,
                   topo->hardware != NULL ? "GPUs" : "cores");
    status = add(table, "SPEC local", text,
                 topo->hardware != NULL ? "by sysfs and NVML"
                                        : "by sysfs; GPUs are found by NVML, libnvidia-ml.so.1 of "
                                          "NVIDIA's driver");
    tutti_topo_free(topo);
    return status;
}

/* The versions of NCCL by which choices are known. */
static int add_nccl(struct tutti_table *table)
{
    const struct tutti_nccl_version *version;
    char text[256] = "";
    size_t used = 0;

    for (size_t i = 0; (version = tutti_nccl_version_at(i)) != NULL && used < sizeof(text); i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i > 0 ? " " : "",
                                 tutti_nccl_version_name(version));
    return add(table, "as NCCL", text, "versions whose choices are known: --as-nccl");
}

/* Who this process is, by whoever has started it. */
static int add_launcher(struct tutti_table *table)
{
    struct tutti_launch launch;
    struct tutti_err why = {.text = ""};
    char text[TUTTI_ERR_TEXT_BYTES] = "";
    size_t used;

    if (tutti_launch_read(&tutti_env_process, NULL, &launch, &why) < 0)
        return add(table, "launcher", "unclear", why.text);
    if (strcmp(launch.name, "none") == 0)
        return add(table, "launcher", "none", "nobody has started this process as one of several");
    used = (size_t)snprintf(text, sizeof(text), "process %" PRIu32, launch.index);
    if (!launch.member)
        used = (size_t)snprintf(text, sizeof(text), "a '%s', which plays nothing", launch.role);
    else if (launch.count > 0)
        used += (size_t)snprintf(text + used, sizeof(text) - used, " of %" PRIu32, launch.count);
    else
        used += (size_t)snprintf(text + used, sizeof(text) - used, " of how many: TUTTI_SIZE");
    if (launch.local_count > 0)
        used += (size_t)snprintf(text + used, sizeof(text) - used, ", %" PRIu32 " on this host",
                                 launch.local_count);
    if (launch.root_host[0] != '\0' && launch.root_port != 0)
        (void)snprintf(text + used, sizeof(text) - used, ", process 0 at %s port %u",
                       launch.root_host, launch.root_port);
    else if (!tutti_launch_can_share(&launch) && !tutti_pmix_is_there(&tutti_env_process))
        (void)snprintf(text + used, sizeof(text) - used, ", process 0 where TUTTI_ROOT says");
    return add(table, "launcher", launch.by, text);
}

/* The backends that no build lacks. */
static int add_everywhere(struct tutti_table *table)
{
    size_t count;
    const struct tutti_backend_kind *kinds = tutti_backend_kinds(&count);
    int status = 0;

    for (size_t i = 0; i < count; i++) {
        char name[32];

        if (kinds[i].grouped || kinds[i].on_gpu)
            continue;
        (void)snprintf(name, sizeof(name), "backend %s", kinds[i].name);
        status |= add(table, name, "yes", kinds[i].help);
    }
    return status;
}

int tutti_command_doctor(const struct tutti_args *args, struct tutti_sink *sink,
                         struct tutti_err *err)
{
    struct tutti_table *table = tutti_table_new(columns, sizeof(columns) / sizeof(columns[0]));
    struct tutti_page page;
    int status = table == NULL ? -TUTTI_ENOMEM : 0;

    if (status == 0)
        status = add_build(table);
    if (status == 0)
        status = add_products(table) | add_gzip(table);
    if (status == 0)
        status = add_everywhere(table) | add_tcp(table) | add_mpi(table) | add_launcher(table) |
                 add_nccl(table) | add_gpu(table) | add_local(table);
    if (status == 0)
        status = add_machine(table);
    if (status != 0) {
        tutti_table_free(table);
        return tutti_nomem(err);
    }
    if (tutti_args_is(args, "format", "json")) {
        struct tutti_json json = {.out = sink->out};

        tutti_json_open(&json, NULL, '{');
        tutti_json_text(&json, "tutti", TUTTI_BUILD_VERSION);
        tutti_table_json(table, "items", &json);
        tutti_json_close(&json);
    } else if (tutti_args_is(args, "format", "csv")) {
        tutti_table_csv(table, sink->out);
    } else {
        status = tutti_page_open(&page, sink, err);
        if (status == 0) {
            tutti_table_print(table, &page);
            status = tutti_page_close(&page, 0, err);
        }
    }
    tutti_table_free(table);
    return status;
}

static const struct tutti_option options[] = {TUTTI_OPTIONS_OUTPUT};

const struct tutti_command tutti_cli_doctor = {
    .name = "doctor",
    .summary = "what this build and this machine have, and how to get the rest",
    .operands = "",
    .text = "Prints what this build of Tutti was made with, which optional libraries it has and "
            "how to get those it lacks, and what this machine offers to the backends that really "
            "execute schedules.",
    .examples = "tutti doctor\ntutti doctor --format json",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = tutti_command_doctor,
};
