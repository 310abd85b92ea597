/* A group of a machine's ranks as a machine of its own: by the SPEC of its preset. */
#include "sim/train/part.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/train.h"

enum { SPEC_BYTES = 512 };

/* What a SPEC says of its hosts. */
struct hosts {
    uint32_t nodes;
    uint32_t gpus;      /* of each; 0: as it is */
    uint64_t nic_bytes; /* a second, of each NIC; 0: as they are */
    uint32_t nics;      /* of each host; 0: as they are */
    bool nvswitch;      /* join the GPUs of each, which lie at so many */
    uint32_t switches;  /* of PCIe */
};

static bool is_replaced(const char *key, const struct hosts *hosts)
{
    return strncmp(key, "nodes=", 6) == 0 || (hosts->gpus > 0 && strncmp(key, "gpus=", 5) == 0) ||
           (hosts->nics > 0 && strncmp(key, "nics=", 5) == 0) ||
           (hosts->nvswitch &&
            (strncmp(key, "intra=", 6) == 0 || strncmp(key, "switches=", 9) == 0)) ||
           (hosts->nic_bytes > 0 &&
            (strncmp(key, "nic=", 4) == 0 || strncmp(key, "nicbw=", 6) == 0));
}

static bool is_preset(const char *spec, const char *name)
{
    return strncmp(spec, name, strlen(name)) == 0 && strchr(":", spec[strlen(name)]) != NULL;
}

/* The key of the rate of a network card. */
static const char *rate_key(const char *spec)
{
    return is_preset(spec, "host") || is_preset(spec, "rail") ? "nic" : "nicbw";
}

/* Whether a SPEC says how many network cards a host has; others have them by GPUs. */
static bool counts_nics(const char *spec)
{
    return is_preset(spec, "host") || is_preset(spec, "rail") || is_preset(spec, "pcie");
}

/* The SPEC with these hosts in the place of what it says of them. */
static bool respell(const char *spec, const struct hosts *hosts, char ret[SPEC_BYTES])
{
    const char *colon = strchr(spec, ':');
    size_t name_bytes = colon == NULL ? strlen(spec) : (size_t)(colon - spec);
    int used = snprintf(ret, SPEC_BYTES, "%.*s:nodes=%u", (int)name_bytes, spec, hosts->nodes);

    if (hosts->gpus > 0)
        used += snprintf(ret + used, SPEC_BYTES - (size_t)used, ",gpus=%u", hosts->gpus);
    if (hosts->nics > 0)
        used += snprintf(ret + used, SPEC_BYTES - (size_t)used, ",nics=%u", hosts->nics);
    if (hosts->nvswitch)
        used += snprintf(ret + used, SPEC_BYTES - (size_t)used, ",intra=nvswitch,switches=%u",
                         hosts->switches);
    if (hosts->nic_bytes > 0)
        used += snprintf(ret + used, SPEC_BYTES - (size_t)used, ",%s=%" PRIu64 "B/s",
                         rate_key(spec), hosts->nic_bytes);
    for (const char *at = colon; at != NULL && used < SPEC_BYTES;) {
        const char *key = at + 1;
        const char *end = strchr(key, ',');
        size_t bytes = end == NULL ? strlen(key) : (size_t)(end - key);

        if (!is_replaced(key, hosts))
            used += snprintf(ret + used, SPEC_BYTES - (size_t)used, ",%.*s", (int)bytes, key);
        at = end;
    }
    return used < SPEC_BYTES;
}

/* 1: it was made, 0: there is none such, -TUTTI_ENOMEM. */
static int make_spec(const char *spec, uint32_t rank_count, struct tutti_topo **ret)
{
    struct tutti_topo *part = NULL;
    int status = tutti_topo_from_spec(spec, &part, NULL);

    if (status < 0)
        return status == -TUTTI_ENOMEM ? status : 0;
    if (part->rank_count != rank_count) {
        tutti_topo_free(part);
        return 0;
    }
    *ret = part;
    return 1;
}

static int make_hosts(const char *spec, const struct hosts *hosts, uint32_t rank_count,
                      struct tutti_topo **ret)
{
    char text[SPEC_BYTES];

    return respell(spec, hosts, text) ? make_spec(text, rank_count, ret) : 0;
}

/* Switches of the first host: "nvswitch", "pcie". */
static uint32_t count_switches(const struct tutti_topo *topo, const char *name)
{
    char text[TUTTI_NODE_NAME_BYTES];
    uint32_t count = 0;

    for (uint32_t i = 0; i < topo->node_count; i++) {
        const struct tutti_node node = tutti_topo_node(topo, i);

        if (node.host != 0 && node.host != UINT32_MAX)
            break;
        if (node.host == 0 && node.kind == TUTTI_NODE_SWITCH)
            count += strncmp(tutti_topo_node_name(topo, i, text), name, strlen(name)) == 0;
    }
    return count;
}

/* GPUs of a board with NVSwitches are joined by them, and lie at their own of its PCIe switches;
 * four in a SPEC would be a board of four, without either. */
static int make_part(const struct tutti_topo *topo, const struct hosts *hosts, uint32_t rank_count,
                     struct tutti_topo **ret)
{
    const uint32_t per_host = topo->rank_count / topo->host_count;
    struct hosts wired = *hosts;
    struct tutti_topo *part = NULL;
    const int made = make_hosts(topo->name, hosts, rank_count, &part);

    if (made <= 0)
        return made;
    if (hosts->gpus < 2 || !is_preset(topo->name, "host") ||
        count_switches(topo, "nvswitch") == 0 || count_switches(part, "nvswitch") > 0) {
        *ret = part;
        return 1;
    }
    tutti_topo_free(part);
    wired.nvswitch = true;
    wired.switches = (count_switches(topo, "pcie") * hosts->gpus + per_host - 1) / per_host;
    return make_hosts(topo->name, &wired, rank_count, ret);
}

static int make(const struct tutti_topo *topo, uint32_t nodes, uint32_t gpus, uint32_t rank_count,
                struct tutti_topo **ret)
{
    const struct hosts hosts = {.nodes = nodes, .gpus = gpus};

    return make_part(topo, &hosts, rank_count, ret);
}

/* Network cards of the first host. */
static uint32_t count_nics(const struct tutti_topo *topo)
{
    uint32_t nics = 0;

    for (uint32_t i = 0; i < topo->node_count; i++) {
        const struct tutti_node node = tutti_topo_node(topo, i);

        if (node.host == 0 && node.kind == TUTTI_NODE_NIC)
            nics++;
        else if (node.host != 0 && node.host != UINT32_MAX)
            break;
    }
    return nics;
}

/* Out of the first host, by all of them. */
static uint64_t rate_out(const struct tutti_topo *topo)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < topo->link_count; i++) {
        const struct tutti_link link = tutti_topo_link(topo, i);
        const struct tutti_node from = tutti_topo_node(topo, link.from);

        if (from.host == 0 && from.kind == TUTTI_NODE_NIC &&
            tutti_topo_node(topo, link.to).host != 0)
            sum = tutti_plus(sum, link.bytes_per_s);
    }
    return sum;
}

/* So many ranks of each host, whose cards have `share` together: those that such a part has by
 * itself where that is no more; else their share of the cards, and each so fast. */
static int make_sharing(const struct tutti_topo *topo, uint32_t on_host, uint32_t host_count,
                        uint64_t share, struct tutti_topo **ret)
{
    const uint64_t nics = (uint64_t)count_nics(topo) * on_host * topo->host_count;
    struct hosts hosts = {.nodes = host_count, .gpus = on_host};
    struct tutti_topo *part = NULL;
    int made = make_part(topo, &hosts, on_host * host_count, &part);

    if (made < 0)
        return made;
    if (made > 0 && rate_out(part) <= share) {
        *ret = part;
        return 1;
    }
    if (counts_nics(topo->name))
        hosts.nics = nics > topo->rank_count ? (uint32_t)(nics / topo->rank_count) : 1;
    hosts.nic_bytes = hosts.nics > 0 ? share / hosts.nics : made > 0 ? share / count_nics(part) : 0;
    tutti_topo_free(part);
    return hosts.nic_bytes == 0 ? 0 : make_part(topo, &hosts, on_host * host_count, ret);
}

/* So many ranks of each host, while the others do the same: each has a NIC, or where there are
 * fewer its share of all. */
static int make_across(const struct tutti_topo *topo, uint32_t on_host, uint32_t host_count,
                       struct tutti_topo **ret)
{
    const uint32_t per_host = topo->rank_count / topo->host_count;
    const uint32_t nics = count_nics(topo);

    if (nics >= per_host)
        return make(topo, host_count, on_host, on_host * host_count, ret);
    if (nics == 0)
        return 0;
    return make_sharing(topo, on_host, host_count, tutti_muldiv(rate_out(topo), on_host, per_host),
                        ret);
}

int tutti_part_of(const struct tutti_topo *topo, const struct tutti_axis *axis,
                  struct tutti_topo **ret)
{
    uint32_t per_host = topo->host_count > 0 ? topo->rank_count / topo->host_count : 0;

    if (!topo->is_preset || per_host == 0 || topo->rank_count % topo->host_count != 0)
        return 0;
    if (axis->stride == 1 && axis->size % per_host == 0)
        return make(topo, axis->size / per_host, 0, axis->size, ret);
    if (axis->stride == 1 && axis->size < per_host && per_host % axis->size == 0)
        return make(topo, 1, axis->size, axis->size, ret);
    if (axis->stride == per_host && axis->width == per_host)
        return make_across(topo, 1, axis->size, ret);
    return 0;
}

/* ---- more or fewer devices ------------------------------------------------------------------- */

/* The SPEC of a preset of `n=` ranks, or of a slice "AxB", with other dimensions. */
static bool respell_ranks(const char *spec, const char *dims, char ret[SPEC_BYTES])
{
    const char *colon = strchr(spec, ':');
    size_t name_bytes = colon == NULL ? strlen(spec) : (size_t)(colon - spec);
    const char *rest = colon == NULL ? NULL : strchr(colon, ',');

    return snprintf(ret, SPEC_BYTES, "%.*s:%s%s", (int)name_bytes, spec, dims,
                    rest == NULL ? "" : rest) < SPEC_BYTES;
}

static int make_ranks(const char *spec, const char *dims, uint32_t device_count,
                      struct tutti_topo **ret)
{
    char text[SPEC_BYTES];

    return respell_ranks(spec, dims, text) ? make_spec(text, device_count, ret) : 0;
}

/* Of a torus: the sides that are nearest to each other, the longest last. */
static int make_slice(const struct tutti_topo *topo, uint32_t n, struct tutti_topo **ret)
{
    int made = 0;
    char dims[64];

    for (uint32_t a = n; topo->shape.dim_count == 2 && a >= 1 && made == 0; a--) {
        if (n % a != 0 || a > n / a)
            continue;
        (void)snprintf(dims, sizeof(dims), "%ux%u", a, n / a);
        made = make_ranks(topo->name, dims, n, ret);
    }
    for (uint32_t c = 1; topo->shape.dim_count == 3 && c <= n && made == 0; c++)
        for (uint32_t b = c; n % c == 0 && b >= 1 && made == 0; b--) {
            uint32_t a = n / c % b == 0 ? n / c / b : 0;

            if (a == 0 || a > b)
                continue;
            (void)snprintf(dims, sizeof(dims), "%ux%ux%u", a, b, c);
            made = make_ranks(topo->name, dims, n, ret);
        }
    return made;
}

/* By hosts, whole ones or a part of one. */
static int make_host_count(const struct tutti_topo *topo, uint32_t n, struct tutti_topo **ret)
{
    uint32_t per_host = topo->host_count > 0 ? topo->rank_count / topo->host_count : 0;

    if (per_host == 0 || n == 0)
        return 0;
    if (n < per_host)
        return make(topo, 1, n, n, ret);
    return n % per_host == 0 ? make(topo, n / per_host, 0, n, ret) : 0;
}

bool tutti_part_is_flat(const struct tutti_topo *topo)
{
    return topo->is_preset && strncmp(topo->name, "switch:", 7) == 0;
}

int tutti_part_of_hosts(const struct tutti_topo *topo, uint32_t on_host, uint32_t host_count,
                        struct tutti_topo **ret)
{
    const uint32_t per_host = topo->host_count > 0 ? topo->rank_count / topo->host_count : 0;
    const uint32_t ranks = on_host * host_count;
    char text[32];

    if (!topo->is_preset)
        return 0;
    if (ranks == topo->rank_count)
        return make_spec(topo->name, ranks, ret);
    (void)snprintf(text, sizeof(text), "n=%u", ranks);
    if (tutti_part_is_flat(topo))
        return make_ranks(topo->name, text, ranks, ret);
    if (per_host == 0 || topo->rank_count % topo->host_count != 0)
        return 0;
    if (on_host == per_host)
        return make(topo, host_count, 0, ranks, ret);
    if (host_count == 1)
        return make(topo, 1, on_host, on_host, ret);
    return make_across(topo, on_host, host_count, ret);
}

int tutti_train_machine(const struct tutti_topo *topo, uint32_t device_count,
                        struct tutti_topo **ret, struct tutti_err *err)
{
    char ranks[32];
    int made;

    if (!topo->is_preset)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%s' of '%u' devices is not known: it is no preset (its own %u, or the "
                          "SPEC of a preset)",
                          topo->name, device_count, topo->rank_count);
    made = topo->shape.dim_count > 1 ? make_slice(topo, device_count, ret) : 0;
    (void)snprintf(ranks, sizeof(ranks), "n=%u", device_count);
    if (made == 0)
        made = make_host_count(topo, device_count, ret);
    if (made == 0)
        made = make_ranks(topo->name, ranks, device_count, ret);
    if (made < 0)
        return tutti_nomem(err);
    if (made > 0)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "there is no '%s' of '%u' devices (whole hosts, a part of one, or a slice)",
                      topo->name, device_count);
}
