/* Copies of a machine of one host, joined by a network that is in nobody's way. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/status.h"
#include "topo/graph/routes.h"
#include "topo/hardware.h"
#include "topo/presets/cluster.h"
#include "topo/presets/preset.h"
#include "topo/topo.h"

static int refuse(const struct tutti_topo *host, uint32_t host_count, tutti_ps latency_ps,
                  struct tutti_err *err)
{
    if (host_count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "0 copies of '%s' (from 1)", host->name);
    if (latency_ps < 0)
        return tutti_fail(err, TUTTI_EINVAL, "a negative latency between copies of '%s'",
                          host->name);
    if (host->host_count > 1)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%s' has %" PRIu32 " hosts already (only a machine of one host can be "
                          "copied)",
                          host->name, host->host_count);
    if ((uint64_t)host_count * host->rank_count > TUTTI_PRESET_DEVICES_MAX)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%" PRIu32 " copies of '%s' are too many (at most %d devices)",
                          host_count, host->name, TUTTI_PRESET_DEVICES_MAX);
    return 0;
}

/* "NAME x 4", and what of the numbers is ours. */
static int set_title(struct tutti_topo_builder *builder, const struct tutti_topo *host,
                     uint32_t host_count, struct tutti_err *err)
{
    char *name = NULL;
    char *source = NULL;
    int status = -TUTTI_ENOMEM;

    if (asprintf(&name, "%s x %" PRIu32, host->name, host_count) < 0)
        name = NULL;
    if (asprintf(&source, "%s; network between hosts assumed non-blocking", host->source) < 0)
        source = NULL;
    if (name != NULL && source != NULL)
        status = tutti_topo_set_title(builder, name, source, err);
    free(name);
    free(source);
    return status == -TUTTI_ENOMEM ? tutti_nomem(err) : status;
}

/* Where all ports of a host can have their data added up in the network, its switches are taken to
 * do so. */
static bool ports_reduce(const struct tutti_hardware *hardware)
{
    if (hardware == NULL || hardware->net_count == 0)
        return false;
    for (uint32_t i = 0; i < hardware->net_count; i++) {
        if (!hardware->nets[i].coll)
            return false;
    }
    return true;
}

int tutti_topo_replicate(const struct tutti_topo *host, uint32_t host_count, tutti_ps latency_ps,
                         struct tutti_topo **ret, struct tutti_err *err)
{
    struct tutti_cluster cluster = {
        .host_count = host_count,
        .spine_count = 1,
        .nic_latency_ps = latency_ps,
        .hop_latency_ps = latency_ps < TUTTI_SPINE_PS ? latency_ps : TUTTI_SPINE_PS,
        .kind = TUTTI_LINK_NET,
        .net_kind = host->net_kind,
        .reduces = ports_reduce(host->hardware),
    };
    struct tutti_topo_builder *builder = NULL;
    int status = refuse(host, host_count, latency_ps, err);

    if (status == 0)
        status = tutti_topo_builder_new(host->name, host->source, &builder, err);
    if (status < 0)
        return status;
    status = tutti_cluster_build(builder, host, &cluster, err);
    if (status == 0 && host_count > 1)
        status = set_title(builder, host, host_count, err);
    if (status < 0) {
        tutti_topo_builder_free(builder);
        return status;
    }
    return tutti_topo_freeze(builder, ret, err);
}
