/* The pass over the tree: NUMA nodes, PCI switches, GPUs, cards and ports, each hung on its parent.
 *
 * What becomes what: cpu, a CPU node; pci, a switch, a device (with a gpu) or a card (with a nic; a
 * switch as well, because NICs are ends); net, a NIC node, whose cable to the card has the rate of
 * the port, so that a cluster made of copies of this machine finds it there. */
#include "traces/nccl_xml/build.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "topo/hardware.h"
#include "traces/nccl_xml/look.h"
#include "traces/nccl_xml/rates.h"

/* Bounds on what is searched one by one: many times the largest NVLink domain. */
enum { GPUS_MAX = 4096, PORTS_MAX = 4096, CPUS_MAX = 512, NAME_BYTES = 32, LANES_MAX = 1024 };

int tutti_xml_add_node(struct tutti_xml_build *build, enum tutti_node_kind kind, const char *stem,
                       uint32_t number, uint32_t host, uint32_t *ret)
{
    char name[NAME_BYTES];
    struct tutti_node node = {.name = name, .rank = TUTTI_RANK_NONE, .kind = (uint8_t)kind};

    (void)snprintf(name, sizeof(name), "%s%" PRIu32, stem, number);
    node.host = host;
    if (kind == TUTTI_NODE_DEVICE)
        node.rank = number;
    return tutti_topo_add_node(build->topo, &node, ret, build->err);
}

int tutti_xml_add_cable(struct tutti_xml_build *build, uint32_t a, uint32_t b,
                        enum tutti_link_kind kind, uint64_t bytes_per_s, tutti_ps latency_ps)
{
    struct tutti_link link = {.from = a, .to = b, .kind = (uint8_t)kind, .cable_count = 1};

    link.bytes_per_s = bytes_per_s;
    link.latency_ps = latency_ps;
    return tutti_topo_add_cable(build->topo, &link, build->err);
}

/* ---- CPUs ---------------------------------------------------------------------------------- */

static int too_many(const struct tutti_xml_build *build, uint32_t element, const char *what,
                    int max)
{
    return tutti_fail(build->err, TUTTI_EINVAL, "%s: line %u: more than %d %s", build->xml->name,
                      build->xml->elements[element].line, max, what);
}

/* NUMA nodes with the same host_hash, or none, are of one host. */
static uint32_t host_of(struct tutti_xml_build *build, uint32_t element)
{
    const struct tutti_xml *xml = build->xml;
    const char *hash = tutti_xml_value(&xml->elements[element], "host_hash");

    for (uint32_t c = 0; c < build->cpu_count; c++) {
        const char *other = tutti_xml_value(&xml->elements[build->cpus[c]], "host_hash");

        if ((hash == NULL) == (other == NULL) && (hash == NULL || strcmp(hash, other) == 0))
            return build->places[build->cpus[c]].host;
    }
    return build->host_count++;
}

static int add_cpu(struct tutti_xml_build *build, uint32_t element)
{
    struct tutti_xml_place *place = &build->places[element];

    if (build->cpu_count == CPUS_MAX)
        return too_many(build, element, "cpu elements", CPUS_MAX);
    place->host = host_of(build, element);
    build->cpus[build->cpu_count] = element;
    place->cpu = element;
    return tutti_xml_add_node(build, TUTTI_NODE_CPU, "cpu", build->cpu_count++, place->host,
                              &place->node);
}

/* ---- PCI ----------------------------------------------------------------------------------- */

static int join_to_parent(struct tutti_xml_build *build, uint32_t element)
{
    const struct tutti_xml_element *pci = &build->xml->elements[element];
    int64_t width;
    int status =
        tutti_xml_number(build->xml, pci, "link_width", 0, 0, LANES_MAX, &width, build->err);
    uint64_t rate = tutti_xml_pcie_rate(tutti_xml_value(pci, "link_speed"), (uint64_t)width);

    if (status < 0)
        return status;
    return tutti_xml_add_cable(build, build->places[pci->parent].node, build->places[element].node,
                               TUTTI_LINK_PCIE, rate, TUTTI_HW_PCIE_PS);
}

static int add_switch(struct tutti_xml_build *build, uint32_t element)
{
    const struct tutti_xml_element *pci = &build->xml->elements[element];
    const struct tutti_xml_place *parent = &build->places[pci->parent];
    struct tutti_xml_place *place = &build->places[element];
    int status;

    place->pex = tutti_xml_device_ids(pci);
    if (tutti_hw_is_one_switch(parent->pex, place->pex)) {
        place->node = parent->node;
        place->pex = 0; /* its own children are not merged again */
        return 0;
    }
    status = tutti_xml_add_node(build, TUTTI_NODE_SWITCH, "pci", build->switch_count++, place->host,
                                &place->node);
    return status < 0 ? status : join_to_parent(build, element);
}

/* The functions of a card are one node: they share the slot. */
static int add_card(struct tutti_xml_build *build, uint32_t element)
{
    uint64_t bus = tutti_xml_bus(&build->xml->elements[element], "busid") & ~UINT64_C(0xf);
    struct tutti_xml_place *place = &build->places[element];
    struct tutti_xml_part *card = build->cards;
    int status;

    for (uint32_t c = 0; c < build->card_count; c++, card++) {
        if (card->host == place->host && card->key == bus) {
            place->node = card->node;
            return 0;
        }
    }
    if (build->card_count == PORTS_MAX)
        return too_many(build, element, "nic elements", PORTS_MAX);
    status = tutti_xml_add_node(build, TUTTI_NODE_SWITCH, "card", build->card_count, place->host,
                                &place->node);
    if (status < 0)
        return status;
    *card = (struct tutti_xml_part){.host = place->host, .node = place->node, .key = bus};
    build->card_count++;
    return join_to_parent(build, element);
}

static int add_gpu(struct tutti_xml_build *build, uint32_t element, struct tutti_xml_gpu *gpu)
{
    struct tutti_xml_place *place = &build->places[element];
    int status =
        tutti_xml_add_node(build, TUTTI_NODE_DEVICE, "gpu", gpu->index, place->host, &place->node);

    gpu->node = place->node;
    gpu->host = place->host;
    return status < 0 ? status : join_to_parent(build, element);
}

static int add_pci(struct tutti_xml_build *build, uint32_t element)
{
    const struct tutti_xml_place *place = &build->places[element];

    if (place->gpu != TUTTI_XML_NONE && build->places[place->gpu].device != NULL)
        return add_gpu(build, element, build->places[place->gpu].device);
    if (place->nic != TUTTI_XML_NONE)
        return add_card(build, element);
    return add_switch(build, element);
}

/* ---- ports --------------------------------------------------------------------------------- */

static int read_port(struct tutti_xml_build *build, uint32_t element, struct tutti_xml_part *port,
                     uint64_t *ret_rate, tutti_ps *ret_latency)
{
    const struct tutti_xml_element *net = &build->xml->elements[element];
    const char *guid = tutti_xml_value(net, "guid");
    const char *latency = tutti_xml_value(net, "latency");
    double latency_us = latency == NULL ? 0 : strtod(latency, NULL);
    int64_t mbps;
    int64_t dev;
    int status = tutti_xml_number(build->xml, net, "speed", 0, -1, INT32_MAX, &mbps, build->err);

    if (status == 0)
        status =
            tutti_xml_number(build->xml, net, "port", 0, -1, INT32_MAX, &port->port, build->err);
    if (status == 0)
        status = tutti_xml_number(build->xml, net, "dev", 0, 0, INT32_MAX, &dev, build->err);
    if (status < 0)
        return status;
    port->key = guid == NULL ? (uint64_t)dev : strtoull(guid, NULL, 16);
    *ret_rate = (uint64_t)(mbps <= 0 ? 10000 : mbps) * (1000000 / 8); /* as NCCL: 10 Gb/s */
    *ret_latency = 0; /* that of the cable outside, which is not in the file, unless it says */
    if (latency_us > 0 && latency_us < 1e6)
        *ret_latency = (tutti_ps)(latency_us * (double)TUTTI_PS_PER_US);
    return 0;
}

/* Elements with the same guid and port are one port, seen from several places. */
static int add_port(struct tutti_xml_build *build, uint32_t element)
{
    struct tutti_xml_place *place = &build->places[element];
    uint32_t above = build->places[build->xml->elements[element].parent].node;
    struct tutti_xml_part new = {.host = place->host};
    uint32_t p = 0;
    uint64_t rate;
    tutti_ps latency;
    int status = read_port(build, element, &new, &rate, &latency);

    if (status < 0)
        return status;
    for (; p < build->port_count; p++)
        if (build->ports[p].host == new.host && build->ports[p].key == new.key &&
            build->ports[p].port == new.port)
            break;
    if (p < build->port_count)
        return 0;
    if (p == PORTS_MAX)
        return too_many(build, element, "net elements", PORTS_MAX);
    status = tutti_xml_add_node(build, TUTTI_NODE_NIC, "nic", p, new.host, &new.node);
    if (status < 0)
        return status;
    build->ports[build->port_count++] = new;
    return tutti_xml_add_cable(build, above, new.node, TUTTI_LINK_NET, rate, latency);
}

/* ---- all of it ----------------------------------------------------------------------------- */

static int add_element(struct tutti_xml_build *build, uint32_t element)
{
    const struct tutti_xml_element *self = &build->xml->elements[element];
    const struct tutti_xml_place *parent = &build->places[self->parent];
    struct tutti_xml_place *place = &build->places[element];

    place->host = parent->host;
    place->cpu = parent->cpu;
    if (strcmp(self->name, "cpu") == 0)
        return add_cpu(build, element);
    if (strcmp(self->name, "pci") == 0)
        return add_pci(build, element);
    place->node = parent->node;
    return strcmp(self->name, "net") == 0 ? add_port(build, element) : 0;
}

/* What NCCL would send by: a port that is no interface of the kernel, if there is one. */
static void set_net_kind(struct tutti_xml_build *build)
{
    enum tutti_net_kind kind = TUTTI_NET_TCP;
    bool any = false;

    for (uint32_t e = 1; e < build->xml->count; e++) {
        const struct tutti_xml_element *net = &build->xml->elements[e];
        enum tutti_net_kind one;

        if (!build->places[e].wanted || strcmp(net->name, "net") != 0)
            continue;
        one = tutti_xml_net_kind(tutti_xml_value(net, "name"));
        if (!any || kind == TUTTI_NET_TCP)
            kind = one;
        any = true;
    }
    if (any)
        tutti_topo_set_net_kind(build->topo, kind);
}

static int build_tree(struct tutti_xml_build *build)
{
    int status = tutti_xml_look(build);

    if (status == 0 && build->gpu_count > GPUS_MAX)
        status = too_many(build, build->gpus[GPUS_MAX].element, "gpu elements", GPUS_MAX);
    for (uint32_t e = 1; e < build->xml->count && status == 0; e++)
        if (build->places[e].wanted)
            status = add_element(build, e);
    set_net_kind(build);
    return status;
}

int tutti_xml_build(const struct tutti_xml *xml, struct tutti_topo_builder *topo,
                    uint32_t *ret_left_out, struct tutti_err *err)
{
    struct tutti_xml_build build = {.xml = xml, .topo = topo, .err = err};
    int status;

    assert(xml->count > 0);
    build.places = calloc(xml->count, sizeof(*build.places));
    build.gpus = calloc(xml->count, sizeof(*build.gpus));
    build.cpus = calloc(CPUS_MAX, sizeof(*build.cpus));
    build.cards = calloc(PORTS_MAX, sizeof(*build.cards));
    build.ports = calloc(PORTS_MAX, sizeof(*build.ports));
    status = build.places == NULL || build.gpus == NULL || build.cpus == NULL ||
                     build.cards == NULL || build.ports == NULL
                 ? tutti_nomem(err)
                 : tutti_xml_hardware_init(&build);
    for (uint32_t e = 0; e < xml->count && status == 0; e++)
        build.places[e].node = build.places[e].cpu = build.places[e].gpu = build.places[e].nic =
            TUTTI_XML_NONE;
    if (status == 0)
        status = build_tree(&build);
    if (status == 0)
        status = tutti_xml_hardware_tree(&build);
    if (status == 0)
        status = tutti_xml_build_links(&build);
    if (status == 0)
        status = tutti_xml_hardware_set(&build);
    *ret_left_out = build.left_out;
    free(build.places);
    free(build.gpus);
    free(build.cpus);
    free(build.cards);
    free(build.ports);
    tutti_xml_hardware_done(&build);
    return status;
}
