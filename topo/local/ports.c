/* Network ports: of RDMA devices, or where there are none, the interfaces of the kernel. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "topo/local/scan.h"

enum { WORD_BYTES = 64, MBIT_UNKNOWN = 10000, MBIT_MAX = 1 << 24, STATE_ACTIVE = 4 };

static int add_port(struct tutti_scan *scan, struct tutti_hw_net net, const char *device)
{
    const char *path = tutti_scan_function(scan, device);

    if (scan->port_count == TUTTI_SCAN_PORTS_MAX)
        return 0;
    if (path != NULL && tutti_scan_find(scan, path) != NULL &&
        tutti_scan_find(scan, path)->gpu != TUTTI_HW_NONE)
        return tutti_fail(scan->err, TUTTI_EINVAL, "a port lies in a GPU, at '%s'", path);
    net.dev = scan->port_count;
    scan->ports[scan->port_count] = net;
    scan->port_paths[scan->port_count++] = path;
    return path == NULL ? 0 : tutti_scan_place(scan, path, true, TUTTI_HW_NONE);
}

/* ---- RDMA ---------------------------------------------------------------------------------- */

/* "a088:c203:005f:1234" */
static uint64_t read_guid(const char *text, uint64_t absent)
{
    uint64_t guid = 0;

    if (text == NULL)
        return absent;
    for (; *text != '\0'; text++) {
        char digit[2] = {*text, '\0'};

        if (*text != ':')
            guid = guid << 4 | strtoull(digit, NULL, 16);
    }
    return guid;
}

/* "400 Gb/sec (4X NDR)", "2.5 Gb/sec (1X SDR)" */
static uint32_t read_rate(const char *text)
{
    double rate = text == NULL ? 0 : strtod(text, NULL);

    return rate > 0 && rate * 1000 < MBIT_MAX ? (uint32_t)(rate * 1000) : 0;
}

static void tell_kind(struct tutti_scan *scan, const char *device, const char *layer)
{
    enum tutti_net_kind kind = TUTTI_NET_IB;

    if (strncmp(device, "rdmap", 5) == 0 || strncmp(device, "efa", 3) == 0)
        kind = TUTTI_NET_EFA;
    else if (layer != NULL && strcmp(layer, "Ethernet") == 0)
        kind = TUTTI_NET_ROCE;
    /* Where some are InfiniBand, jobs go by that. */
    if (scan->net_kind == TUTTI_NET_UNKNOWN || kind == TUTTI_NET_IB)
        scan->net_kind = kind;
}

static int add_rdma_port(struct tutti_scan *scan, const char *device, const char *port)
{
    struct tutti_facts *facts = scan->facts;
    struct tutti_hw_net net = {.gdr = true, .port = (uint32_t)strtoul(port, NULL, 10)};

    if (tutti_facts_number(facts, 0, "sys/class/infiniband/%s/ports/%s/state", device, port) !=
        STATE_ACTIVE)
        return 0;
    net.mbit_per_s =
        read_rate(tutti_facts_look(facts, "sys/class/infiniband/%s/ports/%s/rate", device, port));
    if (net.mbit_per_s == 0) {
        tutti_scan_note(scan, "; rate of %s not known, taken as 10Gb/s", device);
        net.mbit_per_s = MBIT_UNKNOWN;
    }
    net.guid = read_guid(tutti_facts_look(facts, "sys/class/infiniband/%s/sys_image_guid", device),
                         scan->port_count);
    tell_kind(scan, device,
              tutti_facts_look(facts, "sys/class/infiniband/%s/ports/%s/link_layer", device, port));
    return add_port(scan, net, tutti_facts_look(facts, "sys/class/infiniband/%s/device@", device));
}

static int add_rdma(struct tutti_scan *scan)
{
    const char *list = tutti_facts_look(scan->facts, "sys/class/infiniband/");
    char device[WORD_BYTES];
    char port[WORD_BYTES];
    int status = 0;

    while (list != NULL && status == 0 && tutti_facts_word(&list, device, sizeof(device))) {
        const char *ports = tutti_facts_look(scan->facts, "sys/class/infiniband/%s/ports/", device);

        while (ports != NULL && status == 0 && tutti_facts_word(&ports, port, sizeof(port)))
            status = add_rdma_port(scan, device, port);
    }
    return status;
}

/* ---- interfaces ---------------------------------------------------------------------------- */

/* Those of a device that are up: no loopback, bridges and tunnels. */
static int add_interface(struct tutti_scan *scan, const char *name)
{
    struct tutti_facts *facts = scan->facts;
    const char *device = tutti_facts_look(facts, "sys/class/net/%s/device@", name);
    const char *state =
        device == NULL ? NULL : tutti_facts_look(facts, "sys/class/net/%s/operstate", name);
    struct tutti_hw_net net = {.guid = scan->port_count};
    int64_t speed;

    if (state == NULL || (strcmp(state, "up") != 0 && strcmp(state, "unknown") != 0))
        return 0;
    speed = tutti_facts_number(facts, 0, "sys/class/net/%s/speed", name);
    net.mbit_per_s = speed > 0 && speed < MBIT_MAX ? (uint32_t)speed : MBIT_UNKNOWN;
    if (speed <= 0 || speed >= MBIT_MAX)
        tutti_scan_note(scan, "; speed of %s not known, taken as 10Gb/s", name);
    scan->net_kind = TUTTI_NET_TCP;
    return add_port(scan, net, device);
}

int tutti_scan_ports(struct tutti_scan *scan)
{
    const char *list = tutti_facts_look(scan->facts, "sys/class/net/");
    char name[WORD_BYTES];
    int status;

    scan->ports = tutti_arena_take(scan->arena, TUTTI_SCAN_PORTS_MAX, sizeof(*scan->ports));
    scan->port_paths =
        tutti_arena_take(scan->arena, TUTTI_SCAN_PORTS_MAX, sizeof(*scan->port_paths));
    if (scan->ports == NULL || scan->port_paths == NULL)
        return tutti_nomem(scan->err);
    status = add_rdma(scan);
    while (list != NULL && status == 0 && scan->net_kind != TUTTI_NET_IB &&
           scan->net_kind != TUTTI_NET_ROCE && scan->net_kind != TUTTI_NET_EFA &&
           tutti_facts_word(&list, name, sizeof(name)))
        status = add_interface(scan, name);
    return status;
}
