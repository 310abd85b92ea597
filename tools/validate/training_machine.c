/* The machine of a row of training steps, as a SPEC. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/status.h"
#include "tools/validate/training_plan.h"

enum { SPEC_BYTES = 256, HOST_GPUS = 8, PORT_GBITPS = 100 };

bool tutti_training_says(const char *text, const char *word)
{
    size_t bytes = strlen(word);

    if (bytes == 0)
        return true;
    for (; *text != '\0'; text++)
        if (strncasecmp(text, word, bytes) == 0)
            return true;
    return false;
}

/* ---- how many -------------------------------------------------------------------------------- */

struct devices {
    uint32_t hosts;
    uint32_t per_host; /* that are used */
    uint32_t board;    /* that a host has */
};

static int count_devices(const struct tutti_training_row_settings *s, struct devices *ret,
                         struct tutti_err *err)
{
    int64_t gpus = s->gpus;
    int64_t board = s->gpus_per_node > 0 ? s->gpus_per_node : HOST_GPUS;
    int64_t hosts = s->nodes;

    if (gpus == TUTTI_UNSTATED && hosts > 0 && s->gpus_per_node > 0)
        gpus = hosts * board;
    if (gpus == TUTTI_UNSTATED)
        return tutti_fail(err, TUTTI_EINVAL, "how many devices is not stated (gpus)");
    if (hosts == TUTTI_UNSTATED)
        hosts = (gpus + board - 1) / board;
    if (gpus % hosts != 0 || gpus / hosts > board || gpus > UINT32_MAX)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%" PRId64 " devices on %" PRId64 " hosts of %" PRId64
                          " (as many on each)",
                          gpus, hosts, board);
    *ret = (struct devices){(uint32_t)hosts, (uint32_t)(gpus / hosts), (uint32_t)board};
    return 0;
}

/* ---- the network ----------------------------------------------------------------------------- */

struct network {
    double port_gbitps; /* 0: not stated */
    double ports;       /* 0: the rate is that of a whole host */
    const char *kind;
};

/* The number that ends before `end`, and where it begins; `end` itself: there is none. */
static const char *number_before(const char *text, const char *end, double *ret)
{
    const char *begin = end;

    while (begin > text && (isdigit((unsigned char)begin[-1]) || begin[-1] == '.'))
        begin--;
    if (begin < end)
        *ret = strtod(begin, NULL);
    return begin;
}

static const char *skip_blanks_back(const char *text, const char *end)
{
    while (end > text && end[-1] == ' ')
        end--;
    return end;
}

/* "RoCE 4 x 100 Gb/s per node", "InfiniBand HDR 8x200 Gb/s", "RoCE 400 Gb/s per node". */
static struct network read_network(const char *text)
{
    static const char *const kinds[][2] = {
        {"roce", "roce"},    {"infiniband", "ib"}, {"efa", "efa"},     {"slingshot", "slingshot"},
        {"ethernet", "tcp"}, {"tcp", "tcp"},       {"omni-path", "ib"}};
    const char *unit = strstr(text, "Gb/s");
    struct network net = {.kind = NULL};
    const char *at;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && net.kind == NULL; i++)
        if (tutti_training_says(text, kinds[i][0]))
            net.kind = kinds[i][1];
    if (unit == NULL)
        return net;
    at = number_before(text, skip_blanks_back(text, unit), &net.port_gbitps);
    at = skip_blanks_back(text, at);
    if (at > text && at[-1] == 'x')
        (void)number_before(text, skip_blanks_back(text, at - 1), &net.ports);
    return net;
}

/* Of its line rate, as chosen in view of IBM's six FSDP rows on such networks. */
static const double ROCE_SHARE = 0.75;

/* What TensorFlow 2.3's collectives reach of it among hosts: fitted to steps of BERT on two hosts
 * beside one (DLPerf); four hosts are judged by it. */
static const double MULTI_WORKER_SHARE = 0.25;

/* A rate of a whole host without its ports: ports of 100 Gb/s. */
static void settle_ports(const struct devices *d, struct network *net)
{
    double total;

    if (net->port_gbitps <= 0)
        return;
    total = net->port_gbitps * (net->ports > 0 ? net->ports : 1);
    if (net->ports <= 0)
        net->ports = total > PORT_GBITPS ? total / PORT_GBITPS : 1;
    if (net->ports > d->per_host)
        net->ports = d->per_host;
    net->ports = (double)(uint32_t)net->ports;
    net->port_gbitps = total / net->ports;
    if (net->kind != NULL && strcmp(net->kind, "roce") == 0)
        net->port_gbitps *= ROCE_SHARE;
}

/* ---- the SPEC -------------------------------------------------------------------------------- */

/* Presets of machines that were sold as one, of which some devices may be used; else any host. */
static const struct {
    const char *accelerator;
    uint32_t board;
    const char *preset;
} machines[] = {
    {"p100", 8, "dgx-1p"}, {"v100", 8, "dgx-1v"},     {"v100-32g", 8, "dgx-1v"},
    {"v100", 16, "dgx-2"}, {"v100-32g", 16, "dgx-2"},
};

static const char *preset_of(const char *accelerator, uint32_t board)
{
    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
        if (strcmp(machines[i].accelerator, accelerator) == 0 && board <= machines[i].board)
            return machines[i].preset;
    return NULL;
}

/* Hosts know a GPU by its name, whatever memory it has. */
static const char *host_gpu(const char *accelerator)
{
    return strcmp(accelerator, "v100-32g") == 0 ? "v100" : accelerator;
}

static int write_spec(const char *accelerator, const struct devices *d, const struct network *net,
                      char ret[SPEC_BYTES], struct tutti_err *err)
{
    const char *preset = preset_of(accelerator, d->board);
    int used;

    if (d->hosts == 1 && preset != NULL) {
        (void)snprintf(ret, SPEC_BYTES, "%s:gpus=%u", preset, d->per_host);
        return 0;
    }
    used = snprintf(ret, SPEC_BYTES, "host:gpu=%s,gpus=%u", host_gpu(accelerator), d->per_host);
    if (d->per_host < d->board)
        used += snprintf(ret + used, (size_t)(SPEC_BYTES - used), ",board=%u", d->board);
    if (d->hosts == 1)
        return 0;
    if (net->kind == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "the network of %u hosts is not stated (network)",
                          d->hosts);
    used +=
        snprintf(ret + used, (size_t)(SPEC_BYTES - used), ",nodes=%u,net=%s", d->hosts, net->kind);
    if (net->port_gbitps > 0)
        (void)snprintf(ret + used, (size_t)(SPEC_BYTES - used), ",nics=%.0f,nic=%gGb/s", net->ports,
                       net->port_gbitps);
    return 0;
}

int tutti_training_plan_machine(const struct tutti_training_row_settings *s,
                                struct tutti_training_plan *plan, struct tutti_err *err)
{
    struct network net = read_network(s->network);
    struct devices d = {.hosts = 0};
    char spec[SPEC_BYTES];
    int status = count_devices(s, &d, err);

    if (status == 0 && s->gpu[0] == '\0')
        status = tutti_fail(err, TUTTI_EINVAL, "what device it is is not stated (gpu)");
    if (status == 0)
        status = tutti_accelerator_find(s->gpu, &plan->ask.use.accelerator, err);
    if (status < 0)
        return status;
    plan->host_count = d.hosts;
    plan->rank_count = d.hosts * d.per_host;
    settle_ports(&d, &net);
    if (tutti_training_says(s->framework, "MultiWorkerMirrored"))
        net.port_gbitps *= MULTI_WORKER_SHARE;
    plan->host_bytes_per_s = net.port_gbitps * net.ports * 1e9 / 8;
    if (plan->server_count > 0)
        d.hosts = 1;
    status = write_spec(plan->ask.use.accelerator->name, &d, &net, spec, err);
    if (status == 0)
        status = tutti_topo_from_spec(spec, &plan->topo, err);
    plan->ask.topo = plan->topo;
    return status;
}
