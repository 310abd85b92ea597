/* A machine as it is, but for the rate of its network: by the SPEC of its preset. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/units.h"
#include "sim/plan/search.h"
#include "topo/topo.h"

enum { SPEC_BYTES = 512 };

/* The value of a key in "nodes=1 bw=450GB/s", or in a SPEC behind its colon. */
static bool value_of(const char *text, const char *key, char *ret, size_t ret_bytes)
{
    size_t bytes = strlen(key);

    for (const char *at = text; at != NULL && *at != '\0';) {
        size_t length = strcspn(at, ", ");

        if (length > bytes && at[bytes] == '=' && memcmp(at, key, bytes) == 0) {
            (void)snprintf(ret, ret_bytes, "%.*s", (int)(length - bytes - 1), at + bytes + 1);
            return true;
        }
        at += length + (at[length] != '\0');
    }
    return false;
}

static const char *keys_of(const struct tutti_topo *topo)
{
    size_t count;
    const struct tutti_preset *presets = tutti_presets(&count);
    size_t bytes = strcspn(topo->name, ":");

    for (size_t i = 0; i < count; i++)
        if (strlen(presets[i].name) == bytes && memcmp(presets[i].name, topo->name, bytes) == 0)
            return presets[i].keys;
    return "";
}

/* Of one cable out of a NIC of the first host. */
static uint64_t nic_rate(const struct tutti_topo *topo)
{
    for (uint32_t node = 0; node < topo->node_count; node++) {
        if (tutti_topo_node(topo, node).kind != TUTTI_NODE_NIC)
            continue;
        for (uint32_t k = 0; k < tutti_topo_out_count(topo, node); k++) {
            struct tutti_link link = tutti_topo_link(topo, tutti_topo_out_link(topo, node, k));

            if (link.kind == TUTTI_LINK_NET)
                return link.bytes_per_s / (link.cable_count > 0 ? link.cable_count : 1);
        }
    }
    return 0;
}

/* The key that says how fast the network is, and how fast that is; 0: there is none. */
static uint64_t rate_of(const struct tutti_topo *topo, const char **ret_key)
{
    static const char *const of_hosts[] = {"nicbw", "nic"};
    const char *keys = keys_of(topo);
    const char *spec = strchr(topo->name, ':');
    char text[TUTTI_UNIT_TEXT_BYTES];
    uint64_t rate = 0;
    bool has_hosts = false;

    for (size_t i = 0; i < 2 && !has_hosts; i++) {
        *ret_key = of_hosts[i];
        has_hosts = value_of(keys, of_hosts[i], text, sizeof(text));
    }
    if (!has_hosts) {
        *ret_key = "bw";
        if (!value_of(keys, "bw", text, sizeof(text)))
            return 0;
    }
    if (has_hosts && topo->host_count < 2)
        return 0;
    if (spec != NULL)
        (void)value_of(spec + 1, *ret_key, text, sizeof(text));
    if (tutti_read_rate(text, &rate, NULL) == 0)
        return rate;
    return has_hosts ? nic_rate(topo) : 0;
}

/* The SPEC with another value of a key. */
static bool respell(const char *spec, const char *key, uint64_t rate, char ret[SPEC_BYTES])
{
    size_t name_bytes = strcspn(spec, ":");
    size_t key_bytes = strlen(key);
    int used = snprintf(ret, SPEC_BYTES, "%.*s", (int)name_bytes, spec);
    char between = ':';

    for (const char *at = spec + name_bytes; *at != '\0' && used < SPEC_BYTES;) {
        const char *item = at + 1;
        size_t bytes = strcspn(item, ",");

        if (!(strncmp(item, key, key_bytes) == 0 && item[key_bytes] == '=')) {
            used += snprintf(ret + used, SPEC_BYTES - (size_t)used, "%c%.*s", between, (int)bytes,
                             item);
            between = ',';
        }
        at = item + bytes;
    }
    if (used < SPEC_BYTES)
        used += snprintf(ret + used, SPEC_BYTES - (size_t)used, "%c%s=%" PRIu64 "B/s", between, key,
                         rate);
    return used < SPEC_BYTES;
}

int plan_network_scaled(const struct tutti_topo *topo, double factor, struct tutti_topo **ret,
                        struct tutti_err *err)
{
    const char *key = NULL;
    uint64_t rate = topo->is_preset && topo->rank_count > 1 ? rate_of(topo, &key) : 0;
    char spec[SPEC_BYTES];
    int status;

    *ret = NULL;
    if (rate == 0 || !respell(topo->name, key, (uint64_t)((double)rate * factor), spec))
        return 0;
    status = tutti_topo_from_spec(spec, ret, NULL);
    return status == -TUTTI_ENOMEM ? tutti_nomem(err) : 0;
}
