/* What a calibration says of a machine: the classes of its parts, and the protocols put together
 * from the values that fit them best. */
#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sim/calib/store.h"
#include "sim/net/net.h"
#include "sim/play/wires.h"
#include "topo/hardware.h"
#include "topo/topo.h"

#define ANY 0

enum { ROUTE_MAX = 64, RANKS_LOOKED_AT = 16 };

/* ---- the machine ----------------------------------------------------------------------------- */

static const char *gpu_of(const struct tutti_hardware *hardware)
{
    const char *name = NULL;

    if (hardware == NULL || hardware->gpu_count == 0)
        return tutti_calib_gpu(ANY)->name;
    for (size_t i = 1; tutti_calib_gpu(i) != NULL; i++) {
        const struct tutti_calib_class *gpu = tutti_calib_gpu(i);

        if (gpu->sm == hardware->gpus[0].sm && (!gpu->c2c || hardware->c2c_count > 0))
            name = gpu->name; /* with C2C comes after the same without */
    }
    return name != NULL ? name : tutti_calib_gpu(ANY)->name;
}

/* The class of one link. */
static enum tutti_calib_link link_class(const struct tutti_topo *topo,
                                        const struct tutti_link *link)
{
    bool switched = tutti_topo_node(topo, link->from).kind == TUTTI_NODE_SWITCH ||
                    tutti_topo_node(topo, link->to).kind == TUTTI_NODE_SWITCH;

    switch ((enum tutti_link_kind)link->kind) {
    case TUTTI_LINK_NVLINK:
        return switched ? TUTTI_CALIB_LINK_NVSWITCH : TUTTI_CALIB_LINK_NVLINK;
    case TUTTI_LINK_XGMI:
        return TUTTI_CALIB_LINK_XGMI;
    case TUTTI_LINK_C2C:
        return TUTTI_CALIB_LINK_C2C;
    case TUTTI_LINK_ICI:
        return TUTTI_CALIB_LINK_ICI;
    case TUTTI_LINK_PCIE:
        return TUTTI_CALIB_LINK_PCIE;
    case TUTTI_LINK_CPU:
        return TUTTI_CALIB_LINK_HOST;
    case TUTTI_LINK_NET:
        return (enum tutti_calib_link)tutti_calib_link_find(
            tutti_net_kind_name((enum tutti_net_kind)topo->net_kind), TUTTI_CALIB_LINK_NET);
    case TUTTI_LINK_DCN:
        return (enum tutti_calib_link)tutti_calib_link_find("dcn", TUTTI_CALIB_LINK_NET);
    default:
        return TUTTI_CALIB_LINK_GENERIC;
    }
}

static void note_route(const struct tutti_topo *topo, uint32_t from, uint32_t to,
                       struct tutti_calib_machine *machine)
{
    uint32_t links[ROUTE_MAX];
    uint32_t count = tutti_topo_route(topo, from, to, links, ROUTE_MAX);
    enum tutti_hop hop;

    if (count == 0)
        return;
    hop = tutti_route_hop(topo, links, count < ROUTE_MAX ? count : ROUTE_MAX);
    machine->routes[hop] = true;
    machine->slowest = hop > machine->slowest ? hop : machine->slowest;
}

/* The routes among the first ranks, which hold the first host, and to the last one: the others are
 * like them. */
static void note_routes(const struct tutti_topo *topo, struct tutti_calib_machine *machine)
{
    uint32_t count = topo->rank_count < RANKS_LOOKED_AT ? topo->rank_count : RANKS_LOOKED_AT;

    for (uint32_t from = 0; from < count; from++) {
        for (uint32_t to = 0; to < count; to++) {
            if (from != to)
                note_route(topo, from, to, machine);
        }
    }
    if (topo->rank_count > count)
        note_route(topo, 0, topo->rank_count - 1, machine);
    for (enum tutti_hop hop = TUTTI_HOP_NVLINK; hop < TUTTI_HOP_NET; hop++)
        machine->inner = machine->routes[hop] ? hop : machine->inner;
}

/* Whether what goes to other hosts passes a CPU: then NCCL does not use GPUDirect RDMA (2.28
 * paths.cc, NCCL_NET_GDR_LEVEL), so that its buffers are in host memory. Boards of NVLink have NICs
 * at their own switches; where a machine has not been told so, that is no evidence. Networks that
 * have no other way are classes of their own. */
static bool nets_by_cpu(const struct tutti_topo *topo)
{
    uint32_t links[ROUTE_MAX];
    uint32_t count = tutti_topo_route(topo, 0, topo->rank_count - 1, links, ROUTE_MAX);

    if (topo->net_kind != TUTTI_NET_IB && topo->net_kind != TUTTI_NET_ROCE &&
        topo->net_kind != TUTTI_NET_EFA)
        return false;
    if (topo->hardware != NULL && topo->hardware->gpu_count > 0 && !topo->hardware->gpus[0].gdr)
        return true;
    if (topo->hardware != NULL &&
        (topo->hardware->c2c_count > 0 || topo->hardware->nvlink_count > 0))
        return false;
    for (uint32_t i = 0; i + 1 < count && i + 1 < ROUTE_MAX; i++) {
        uint32_t node = tutti_topo_link(topo, links[i]).to;

        if (tutti_topo_node(topo, node).kind == TUTTI_NODE_CPU)
            return true;
    }
    return false;
}

/* Of several classes of one kind of hop the first counts: machines have one. Routes through a CPU
 * may be of PCIe links alone. */
struct tutti_calib_machine tutti_calib_machine_of(const struct tutti_topo *topo)
{
    struct tutti_calib_machine machine = {
        .gpu = gpu_of(topo->hardware), .inner = TUTTI_HOP_COUNT, .rank_count = topo->rank_count};
    struct tutti_link_class classes[TUTTI_LINK_CLASSES_MAX];
    uint32_t more;
    uint32_t count = tutti_topo_link_classes(topo, classes, TUTTI_LINK_CLASSES_MAX, &more);

    for (uint32_t i = 0; i < count; i++) {
        struct tutti_link link = tutti_topo_link(topo, classes[i].first);
        enum tutti_hop hop = tutti_link_hop(topo, classes[i].first);

        machine.nvls |= hop == TUTTI_HOP_NVLINK && (tutti_topo_node(topo, link.from).reduces ||
                                                    tutti_topo_node(topo, link.to).reduces);
        if (machine.links[hop] == NULL)
            machine.links[hop] = tutti_calib_link(hop == TUTTI_HOP_ROOT ? TUTTI_CALIB_LINK_ROOT
                                                                        : link_class(topo, &link))
                                     ->name;
    }
    note_routes(topo, &machine);
    if (machine.routes[TUTTI_HOP_HOST] && machine.links[TUTTI_HOP_HOST] == NULL)
        machine.links[TUTTI_HOP_HOST] = tutti_calib_link(TUTTI_CALIB_LINK_HOST)->name;
    if (machine.routes[TUTTI_HOP_HOST] && machine.links[TUTTI_HOP_ROOT] != NULL)
        machine.links[TUTTI_HOP_PEER] = tutti_calib_link(TUTTI_CALIB_LINK_PEER)->name;
    if (machine.routes[TUTTI_HOP_NET] && nets_by_cpu(topo))
        machine.links[TUTTI_HOP_NET] = tutti_calib_link(TUTTI_CALIB_LINK_CPUNET)->name;
    return machine;
}

/* ---- looking up ------------------------------------------------------------------------------ */

/* The next more general class; false past "any". */
static bool widen(const struct tutti_calib_class *(*table)(size_t), uint8_t *number)
{
    bool more = *number != ANY;

    *number = table(*number)->parent;
    return more;
}

/* The value of a parameter, or of the nearest more general one, which *key then is; or NULL. What
 * is of any link is not of NVLS. */
static const struct tutti_calib_value *look_up(const struct tutti_calib *calib,
                                               struct tutti_calib_key *key)
{
    struct tutti_calib_key at = *key;

    do {
        at.gpu = key->gpu;
        do {
            const struct tutti_calib_value *value = tutti_calib_find(calib, at);

            if (value != NULL) {
                *key = at;
                return value;
            }
        } while (widen(tutti_calib_gpu, &at.gpu));
    } while (at.link != TUTTI_CALIB_LINK_NVLS && widen(tutti_calib_link, &at.link));
    return NULL;
}

static uint8_t number_of(const struct tutti_calib_class *(*table)(size_t), const char *name)
{
    for (size_t i = 0; name != NULL && table(i) != NULL; i++) {
        if (strcmp(table(i)->name, name) == 0)
            return (uint8_t)i;
    }
    return ANY;
}

struct asked {
    struct tutti_calib_key key;
    enum tutti_hop hop;
};

/* A machine, and the numbers of its classes. */
struct asker {
    const struct tutti_calib_machine *machine;
    uint8_t gpu;
    uint8_t links[TUTTI_HOP_COUNT];
};

/* Of kinds of links that it has not, the class is the plainest: should a route be of the kind after
 * all. */
static struct asker asker_of(const struct tutti_calib_machine *machine)
{
    static const uint8_t plain[TUTTI_HOP_COUNT] = {
        [TUTTI_HOP_NVLINK] = TUTTI_CALIB_LINK_NVLINK, [TUTTI_HOP_XGMI] = TUTTI_CALIB_LINK_XGMI,
        [TUTTI_HOP_C2C] = TUTTI_CALIB_LINK_C2C,       [TUTTI_HOP_PCI] = TUTTI_CALIB_LINK_PCIE,
        [TUTTI_HOP_ROOT] = TUTTI_CALIB_LINK_ROOT,     [TUTTI_HOP_HOST] = TUTTI_CALIB_LINK_HOST,
        [TUTTI_HOP_NET] = TUTTI_CALIB_LINK_NET,       [TUTTI_HOP_PEER] = TUTTI_CALIB_LINK_PEER,
    };
    struct asker asker = {.machine = machine, .gpu = number_of(tutti_calib_gpu, machine->gpu)};

    for (int hop = 0; hop < TUTTI_HOP_COUNT; hop++)
        asker.links[hop] = machine->links[hop] == NULL
                               ? plain[hop]
                               : number_of(tutti_calib_link, machine->links[hop]);
    return asker;
}

/* Whether a machine asks for a quantity by a kind of hop. */
static bool is_asked(const struct tutti_calib_machine *machine, enum tutti_hop hop,
                     enum tutti_calib_quantity quantity)
{
    switch (quantity) {
    case TUTTI_CALIB_LAUNCH:
    case TUTTI_CALIB_RANK:
    case TUTTI_CALIB_P2P_LAUNCH:
        return hop == machine->slowest;
    case TUTTI_CALIB_CHANNEL:
    case TUTTI_CALIB_EARLY_CHANNEL:
        return hop == machine->inner;
    case TUTTI_CALIB_PERCENT:
    case TUTTI_CALIB_P2P_PERCENT:
        return machine->links[hop] != NULL;
    default:
        return machine->routes[hop];
    }
}

enum {
    OF_LINKS = TUTTI_PROTOCOLS * TUTTI_HOP_COUNT * TUTTI_CALIB_QUANTITY_COUNT,
    OF_NVLS = OF_LINKS + TUTTI_CALIB_QUANTITY_COUNT, /* hop is TUTTI_HOP_COUNT */
    ALL,                                             /* and one of NVLSTree */
};

/* A quantity of NVLS, which runs in the last protocol. */
static bool ask_nvls(const struct asker *asker, size_t quantity, struct asked *ret)
{
    ret->hop = TUTTI_HOP_COUNT;
    ret->key = (struct tutti_calib_key){.gpu = asker->gpu,
                                        .link = TUTTI_CALIB_LINK_NVLS,
                                        .protocol = TUTTI_PROTOCOLS - 1,
                                        .quantity = (uint8_t)quantity};
    return asker->machine->nvls && tutti_calib_key_is_used(ret->key);
}

/* Of NVLSTree's own there is one. */
static bool ask_nvls_tree(const struct asker *asker, struct asked *ret)
{
    bool nvls = ask_nvls(asker, TUTTI_CALIB_PERCENT, ret);

    ret->key.link = TUTTI_CALIB_LINK_NVLS_TREE;
    return nvls && asker->machine->routes[TUTTI_HOP_NET];
}

/* Number `i` of ALL; whether the machine asks for it. */
static bool ask_any(const struct asker *asker, size_t i, struct asked *ret)
{
    size_t hop = i / TUTTI_CALIB_QUANTITY_COUNT % TUTTI_HOP_COUNT;
    size_t quantity = i % TUTTI_CALIB_QUANTITY_COUNT;

    if (i >= OF_NVLS)
        return ask_nvls_tree(asker, ret);
    if (i >= OF_LINKS)
        return ask_nvls(asker, i - OF_LINKS, ret);
    ret->hop = (enum tutti_hop)hop;
    ret->key = (struct tutti_calib_key){
        .gpu = asker->gpu,
        .link = asker->links[hop],
        .protocol = (uint8_t)(i / TUTTI_CALIB_QUANTITY_COUNT / TUTTI_HOP_COUNT),
        .quantity = (uint8_t)quantity};
    return is_asked(asker->machine, ret->hop, (enum tutti_calib_quantity)quantity) &&
           tutti_calib_key_is_used(ret->key);
}

static bool ask_of(const struct tutti_calib_machine *machine, size_t index, struct asked *ret)
{
    struct asker asker = asker_of(machine);
    size_t number = 0;

    for (size_t i = 0; i < ALL; i++) {
        if (ask_any(&asker, i, ret) && number++ == index)
            return true;
    }
    return false;
}

bool tutti_calib_use(const struct tutti_calib *calib, const struct tutti_calib_machine *machine,
                     size_t index, struct tutti_calib_use *ret)
{
    struct asked asked;

    if (!ask_of(machine, index, &asked))
        return false;
    *ret = (struct tutti_calib_use){.value = NULL};
    tutti_calib_key_print(asked.key, ret->name);
    ret->value = look_up(calib, &asked.key);
    if (ret->value != NULL)
        tutti_calib_key_print(asked.key, ret->found);
    return true;
}

/* ---- putting together ------------------------------------------------------------------------ */

static tutti_ps ps_of(double microseconds)
{
    return (tutti_ps)llround(microseconds * (double)TUTTI_PS_PER_US);
}

static void apply_nvls(struct tutti_protocol *protocol, const struct tutti_calib_key *key,
                       double value)
{
    uint32_t *ppm = key->link == TUTTI_CALIB_LINK_NVLS_TREE ? &protocol->nvls.tree_link_ppm
                                                            : &protocol->nvls.link_ppm;

    if (key->quantity == TUTTI_CALIB_LAUNCH)
        protocol->nvls.launch_ps = ps_of(value);
    else if (key->quantity == TUTTI_CALIB_STEP)
        protocol->nvls.stage_ps = ps_of(value);
    else if (key->quantity == TUTTI_CALIB_SLICE)
        protocol->nvls.loop_ps = ps_of(value);
    else if (key->quantity == TUTTI_CALIB_LANE)
        protocol->nvls.lane_bytes_per_s = (uint64_t)llround(value * 1e9);
    else if (key->quantity == TUTTI_CALIB_PERCENT)
        *ppm = (uint32_t)llround(value / 100 * TUTTI_PPM);
}

/* A share in percent of 0 < percent <= 100: never 0, which is all. */
static uint32_t ppm_of(double percent)
{
    uint32_t ppm = (uint32_t)llround(percent / 100 * TUTTI_PPM);

    return ppm > 0 ? ppm : 1;
}

static void apply(struct tutti_protocol *protocol, const struct asked *asked, uint32_t rank_count,
                  double value)
{
    switch ((enum tutti_calib_quantity)asked->key.quantity) {
    case TUTTI_CALIB_LAUNCH:
        protocol->launch_ps += ps_of(value);
        break;
    case TUTTI_CALIB_RANK:
        protocol->launch_ps += ps_of(value * (double)rank_count);
        break;
    case TUTTI_CALIB_CHANNEL:
        protocol->channel_ps = ps_of(value);
        break;
    case TUTTI_CALIB_EARLY_CHANNEL:
        protocol->early_channel_ps = ps_of(value);
        break;
    case TUTTI_CALIB_STEP:
        protocol->message_ps[asked->hop] = ps_of(value);
        break;
    case TUTTI_CALIB_SLICE:
        protocol->slice_ps[asked->hop] = ps_of(value);
        break;
    case TUTTI_CALIB_LANE:
        protocol->lane_bytes_per_s[asked->hop] = (uint64_t)llround(value * 1e9);
        break;
    case TUTTI_CALIB_P2P_LAUNCH:
        protocol->p2p_launch_ps = ps_of(value);
        break;
    case TUTTI_CALIB_P2P_STEP:
        protocol->p2p_message_ps[asked->hop] = ps_of(value);
        break;
    case TUTTI_CALIB_P2P_LANE:
        protocol->p2p_lane_bytes_per_s[asked->hop] = (uint64_t)llround(value * 1e9);
        break;
    case TUTTI_CALIB_P2P_PERCENT:
        protocol->p2p_link_ppm[asked->hop] = ppm_of(value);
        break;
    default:
        protocol->link_ppm[asked->hop] = ppm_of(value);
        break;
    }
}

/* Adds words to a text as long as there is room. */
__attribute__((format(printf, 3, 4))) static void say(char *text, size_t bytes, const char *format,
                                                      ...)
{
    size_t used = strlen(text);
    va_list list;

    va_start(list, format);
    (void)vsnprintf(text + used, bytes - used, format, list);
    va_end(list);
}

/* What was found for a machine: values of the first layer that it asks for, and how many each
 * layer has. */
struct finds {
    const struct tutti_calib_value *values[ALL];
    size_t value_count;
    uint32_t counts[TUTTI_CALIB_LAYERS_MAX];
};

static uint32_t count_source(const struct finds *finds, const char *word)
{
    uint32_t count = 0;

    for (size_t i = 0; i < finds->value_count; i++)
        count += strcmp(finds->values[i]->source, word) == 0;
    return count;
}

static void describe(const struct tutti_calib *const layers[], const struct finds *finds,
                     size_t layer_count, const struct tutti_calib_machine *machine,
                     struct tutti_calibrated *made)
{
    const struct tutti_calib *calib = layers[0];
    const char *before = ": ";

    if (calib->title != NULL)
        say(made->text, sizeof(made->text), "%s; ", calib->title);
    say(made->text, sizeof(made->text), "%s", machine->gpu);
    for (int hop = 0; hop < TUTTI_HOP_COUNT; hop++) {
        if (machine->links[hop] != NULL)
            say(made->text, sizeof(made->text), " %s", machine->links[hop]);
    }
    for (uint32_t i = 0; i <= calib->origin_count; i++) {
        const char *word = i < calib->origin_count ? calib->origins[i].word : "";
        uint32_t count = count_source(finds, word);

        if (count > 0) {
            say(made->text, sizeof(made->text), "%s%u value%s of %s", before, count,
                count == 1 ? "" : "s", *word != '\0' ? word : "no source");
            before = ", ";
        }
    }
    for (size_t i = 1; i < layer_count; i++) {
        if (finds->counts[i] == 0)
            continue;
        say(made->text, sizeof(made->text), "%s%u of '%s'", before, finds->counts[i],
            tutti_calib_title(layers[i]));
        before = ", ";
    }
    if (made->general_count > 0)
        say(made->text, sizeof(made->text), "%s%u of %u for more general classes", before,
            made->general_count, made->value_count);
}

static struct tutti_calibrated without_costs(void)
{
    struct tutti_calibrated made = {.text = ""};
    size_t count;
    const struct tutti_protocol *known = tutti_protocols(&count);

    assert(count == TUTTI_PROTOCOLS);
    for (size_t i = 0; i < count; i++)
        made.protocols[i] = (struct tutti_protocol){
            .name = known[i].name, .wire_num = known[i].wire_num, .wire_den = known[i].wire_den};
    return made;
}

/* The value of the first layer that has one, which *ret_layer then is; or NULL. */
static const struct tutti_calib_value *look_through(const struct tutti_calib *const layers[],
                                                    size_t count, struct tutti_calib_key *key,
                                                    size_t *ret_layer)
{
    for (size_t i = 0; i < count; i++) {
        const struct tutti_calib_value *value = look_up(layers[i], key);

        if (value != NULL) {
            *ret_layer = i;
            return value;
        }
    }
    return NULL;
}

/* Whether a quantity is of one kind of hop alone, whatever others there are. */
static bool is_of_launch(uint8_t quantity)
{
    return quantity <= TUTTI_CALIB_EARLY_CHANNEL || quantity == TUTTI_CALIB_P2P_LAUNCH;
}

struct tutti_calibrated tutti_calib_compose(const struct tutti_calib *const layers[], size_t count,
                                            const struct tutti_calib_machine *machine)
{
    struct tutti_calibrated made = without_costs();
    struct asker asker = asker_of(machine);
    struct finds finds = {.value_count = 0};

    assert(count > 0 && count <= TUTTI_CALIB_LAYERS_MAX);
    for (size_t i = 0; i < ALL; i++) {
        struct asked asked;
        uint32_t counts = ask_any(&asker, i, &asked);
        struct tutti_calib_key found = asked.key;
        const struct tutti_calib_value *value;
        size_t layer = 0;

        if (is_of_launch(asked.key.quantity) && asked.hop != TUTTI_HOP_COUNT &&
            !is_asked(machine, asked.hop, (enum tutti_calib_quantity)asked.key.quantity))
            continue;
        value = look_through(layers, count, &found, &layer);
        if (value == NULL)
            continue;
        finds.counts[layer] += counts;
        if (counts > 0 && layer == 0)
            finds.values[finds.value_count++] = value;
        made.value_count += counts;
        made.lower_count += layer > 0 ? counts : 0;
        if (tutti_calib_key_order(found) != tutti_calib_key_order(asked.key))
            made.general_count += counts;
        if (asked.hop == TUTTI_HOP_COUNT)
            apply_nvls(&made.protocols[asked.key.protocol], &asked.key, value->value);
        else
            apply(&made.protocols[asked.key.protocol], &asked, machine->rank_count, value->value);
    }
    describe(layers, &finds, count, machine, &made);
    return made;
}
