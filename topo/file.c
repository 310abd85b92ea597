/* Our own text form of a machine: reading it. (file_print.c writes it.)
 *
 * One statement a line; words are separated by blanks; # begins a comment. In any order, but nodes
 * before what names them:
 *
 *   topology NAME...                 what it is called (the rest of the line)
 *   source TEXT...                   where its numbers come from
 *   node NAME device [rank=N] [host=N] [flops=989T] [mem=3350GB/s]
 *   node NAME switch [host=N] [reduces]
 *   node NAME nic|cpu [host=N]
 *   link A B KIND RATE LATENCY [cables=N] [burst=SIZE]   one direction: link g0 sw net 1Gb/s 10us
 *   cable A B KIND RATE LATENCY [cables=N] [burst=SIZE]  both directions
 *   levels N N...                    innermost first
 *   dims NxNx... [wrap=101]          a grid; wrap: 1 for each axis that is a ring
 *   order R R R...                   one ring order; several lines, several rings
 *   routes search                    (the default) fewest hops, widest, lowest index
 *   routes grid [XY XZ YZ]           dimension order; the skews of a twisted torus
 *   routes cube                      2^d ranks: the bits in which they differ, lowest first
 *   routes tree ARITY LEVELS UPLINKS
 *   routes cluster HOSTS NICS GROUP SPINES
 *   net ib|roce|efa|slingshot|tcp|tcpx|tcpxo  what joins the hosts
 *
 * and of one host, as NCCL sees it (hardware.h), each part counted from 0 in order of its lines:
 *
 *   hardware cpu numa=0 [arch=x86_64|arm64|ppc64] [vendor=intel|amd|zhaoxin] [family=6] [model=143]
 *   hardware pci bus=0000:18:00.0 under=cpu0|pci0 gen=5 lanes=16 [ids=1000:c010:1000:a032]
 *   hardware gpu under=pci1 rank=0 dev=0 [sm=90] [gdr] [no-peers]
 *   hardware nvlink from=gpu0 to=gpu1|cpu0|nvswitch count=18
 *   hardware c2c from=gpu0 each=44712MB/s count=10
 *   hardware net under=pci2|cpu0 dev=0 rate=400Gb/s port=1 guid=0xa0 [latency=1us] [gdr] [coll]
 *                    [unordered]
 *   hardware rack hosts=18           NVLink joins so many hosts
 *
 * KIND is generic nvlink xgmi pcie c2c cpu net ici dcn. Ranks are given to all devices or to none.
 * Adding the same link again sums rate, burst (of a token bucket) and cables. Memory grows with the
 * text, but for searched routes, which take 8 bytes for each pair of rank and node and are refused
 * beyond a limit. */
#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "topo/graph/routes.h"
#include "topo/graph/words.h"
#include "topo/hardware/text.h"
#include "topo/topo.h"

/* Nodes by name; open addressing, at most half full. */
struct names {
    uint32_t *slots; /* node index + 1 */
    size_t slot_count;
    char (*text)[TUTTI_WORD_BYTES]; /* by node index */
    uint32_t count;
    uint32_t capacity;
};

struct reader {
    struct tutti_topo_builder *builder;
    struct names names;
    struct tutti_words words; /* of the line being read */
    struct tutti_shape shape;
    uint32_t *orders; /* growing */
    size_t order_used;
    size_t order_capacity;
    uint32_t order_length;
    struct tutti_routes routes;
    struct tutti_hw_builder hardware;
    bool named;
    bool sourced;
};

/* ---- names -------------------------------------------------------------------------------------
 */

static uint64_t text_hash(const char *text)
{
    uint64_t hash = 14695981039346656037u;

    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash ^ hash >> 32;
}

/* The slot of a name, or the empty one where it belongs. */
static size_t slot_of(const struct names *names, const char *name)
{
    size_t slot = (size_t)text_hash(name) & (names->slot_count - 1);

    while (names->slots[slot] != 0 && strcmp(names->text[names->slots[slot] - 1], name) != 0)
        slot = (slot + 1) & (names->slot_count - 1);
    return slot;
}

static int grow_names(struct names *names, struct tutti_err *err)
{
    uint32_t capacity = names->capacity == 0 ? 64 : names->capacity * 2;
    uint32_t *slots = calloc((size_t)capacity * 2, sizeof(*slots));
    void *text = realloc(names->text, capacity * sizeof(names->text[0]));

    if (text != NULL)
        names->text = text;
    if (slots == NULL || text == NULL) {
        free(slots);
        return tutti_nomem(err);
    }
    free(names->slots);
    names->slots = slots;
    names->slot_count = (size_t)capacity * 2;
    names->capacity = capacity;
    for (uint32_t v = 0; v < names->count; v++)
        slots[slot_of(names, names->text[v])] = v + 1;
    return 0;
}

static int add_name(struct names *names, const char *name, struct tutti_err *err)
{
    size_t slot;

    if (names->count == names->capacity) {
        int status = grow_names(names, err);

        if (status < 0)
            return status;
    }
    slot = slot_of(names, name);
    if (names->slots[slot] != 0)
        return tutti_fail(err, TUTTI_EINVAL, "a second node '%s'", name);
    memcpy(names->text[names->count], name, TUTTI_WORD_BYTES);
    names->slots[slot] = ++names->count;
    return 0;
}

static int find_name(const struct names *names, const char *name, uint32_t *ret,
                     struct tutti_err *err)
{
    size_t slot = names->count > 0 ? slot_of(names, name) : 0;

    if (names->count == 0 || names->slots[slot] == 0)
        return tutti_fail(err, TUTTI_EINVAL, "no node '%s' before this line", name);
    *ret = names->slots[slot] - 1;
    return 0;
}

/* ---- statements --------------------------------------------------------------------------------
 */

/* "key=value" is this key: its value; else NULL. */
static const char *value_of(const char *word, const char *key)
{
    size_t length = strlen(key);

    return strncmp(word, key, length) == 0 && word[length] == '=' ? word + length + 1 : NULL;
}

/* "989T": a count with an optional K, M, G, T, P of powers of 1000. */
static int read_flops(const char *text, uint64_t *ret, struct tutti_err *err)
{
    static const char suffixes[] = "KMGTP";
    char digits[TUTTI_WORD_BYTES];
    size_t length = strlen(text);
    const char *suffix = length > 0 ? strchr(suffixes, text[length - 1]) : NULL;
    uint64_t scale = 1;
    uint64_t value;

    memcpy(digits, text, length + 1);
    if (suffix != NULL && *suffix != '\0') {
        digits[length - 1] = '\0';
        for (const char *s = suffixes; s <= suffix; s++)
            scale *= 1000;
    }
    if (tutti_read_count(digits, 0, INT64_MAX / scale, &value, NULL) < 0)
        return tutti_fail(err, TUTTI_EINVAL, "not a rate of FLOPs '%s' (such as 989T)", text);
    *ret = value * scale;
    return 0;
}

static int read_u32(const char *text, uint32_t max, uint32_t *ret, struct tutti_err *err)
{
    uint64_t value = 0;
    int status = tutti_read_count(text, 0, max, &value, err);

    if (status == 0)
        *ret = (uint32_t)value;
    return status;
}

static int read_node_option(const char *word, struct tutti_node *node, struct tutti_err *err)
{
    const char *value;
    bool device = node->kind == TUTTI_NODE_DEVICE;

    if ((value = value_of(word, "host")) != NULL)
        return read_u32(value, UINT32_MAX - 1, &node->host, err);
    if (device && (value = value_of(word, "rank")) != NULL)
        return read_u32(value, UINT32_MAX - 1, &node->rank, err);
    if (device && (value = value_of(word, "flops")) != NULL)
        return read_flops(value, &node->flops_per_s, err);
    if (device && (value = value_of(word, "mem")) != NULL)
        return tutti_read_rate(value, &node->mem_bytes_per_s, err);
    if (node->kind != TUTTI_NODE_SWITCH || strcmp(word, "reduces") != 0)
        return tutti_fail(err, TUTTI_EINVAL, "unknown option '%s' of a %s (host=%s)", word,
                          tutti_node_kind_name((enum tutti_node_kind)node->kind),
                          device                            ? ", rank=, flops=, mem="
                          : node->kind == TUTTI_NODE_SWITCH ? ", reduces"
                                                            : "");
    node->reduces = true;
    return 0;
}

static int read_node(struct reader *reader, struct tutti_err *err)
{
    char name[TUTTI_WORD_BYTES];
    char word[TUTTI_WORD_BYTES];
    struct tutti_node node = {.name = name, .rank = TUTTI_RANK_NONE, .host = UINT32_MAX};
    int status = tutti_words_need(&reader->words, "a node name", name, err);

    if (status == 0)
        status = tutti_words_need(&reader->words, "a kind: device, switch, nic or cpu", word, err);
    if (status < 0)
        return status;
    while (node.kind < TUTTI_NODE_KIND_COUNT &&
           strcmp(word, tutti_node_kind_name((enum tutti_node_kind)node.kind)) != 0)
        node.kind++;
    if (node.kind == TUTTI_NODE_KIND_COUNT)
        return tutti_fail(err, TUTTI_EINVAL, "unknown kind '%s' (device, switch, nic, cpu)", word);
    while (status == 0 && (status = tutti_words_next(&reader->words, word, err)) > 0)
        status = read_node_option(word, &node, err);
    if (status == 0)
        status = add_name(&reader->names, name, err);
    return status < 0 ? status : tutti_topo_add_node(reader->builder, &node, NULL, err);
}

static int read_link_kind(const char *word, uint8_t *ret, struct tutti_err *err)
{
    for (uint8_t k = 0; k < TUTTI_LINK_KIND_COUNT; k++) {
        if (strcmp(word, tutti_link_kind_name((enum tutti_link_kind)k)) == 0) {
            *ret = k;
            return 0;
        }
    }
    return tutti_fail(err, TUTTI_EINVAL,
                      "unknown kind '%s' (generic, nvlink, xgmi, pcie, c2c, cpu, net, ici, dcn)",
                      word);
}

static int read_ends(struct reader *reader, struct tutti_link *link, struct tutti_err *err)
{
    char word[TUTTI_WORD_BYTES];
    int status = tutti_words_need(&reader->words, "the node it leaves", word, err);

    if (status == 0)
        status = find_name(&reader->names, word, &link->from, err);
    if (status == 0)
        status = tutti_words_need(&reader->words, "the node it goes to", word, err);
    return status < 0 ? status : find_name(&reader->names, word, &link->to, err);
}

static int read_link_option(const char *word, struct tutti_link *link, struct tutti_err *err)
{
    const char *value;
    uint64_t burst = 0;
    int status = 0;

    if ((value = value_of(word, "burst")) != NULL) {
        status = tutti_read_size(value, &burst, err);
        if (status == 0 && burst > TUTTI_BURST_BYTES_MAX)
            status = tutti_fail(err, TUTTI_EINVAL, "a link with a burst of '%s' (at most %u bytes)",
                                value, TUTTI_BURST_BYTES_MAX);
        link->burst_bytes = (uint32_t)burst & TUTTI_BURST_BYTES_MAX;
        return status;
    }
    if ((value = value_of(word, "cables")) == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "unknown option '%s' of a link (cables=, burst=)",
                          word);
    status = read_u32(value, UINT32_MAX - 1, &link->cable_count, err);
    if (status == 0 && link->cable_count == 0)
        status = tutti_fail(err, TUTTI_EINVAL, "a link of 0 cables (from 1)");
    return status;
}

static int read_link(struct reader *reader, bool both, struct tutti_err *err)
{
    char word[TUTTI_WORD_BYTES];
    struct tutti_link link = {.cable_count = 1};
    int status = read_ends(reader, &link, err);

    if (status == 0)
        status = tutti_words_need(&reader->words, "a kind such as nvlink", word, err);
    if (status == 0)
        status = read_link_kind(word, &link.kind, err);
    if (status == 0)
        status = tutti_words_need(&reader->words, "a rate such as 450GB/s", word, err);
    if (status == 0)
        status = tutti_read_rate(word, &link.bytes_per_s, err);
    if (status == 0)
        status = tutti_words_need(&reader->words, "a latency such as 500ns", word, err);
    if (status == 0)
        status = tutti_read_time(word, &link.latency_ps, err);
    while (status == 0 && (status = tutti_words_next(&reader->words, word, err)) > 0)
        status = read_link_option(word, &link, err);
    if (status < 0)
        return status;
    return both ? tutti_topo_add_cable(reader->builder, &link, err)
                : tutti_topo_add_link(reader->builder, &link, err);
}

/* All further words as numbers, at most `max` of them. */
static int read_numbers(struct reader *reader, uint32_t *numbers, uint32_t max, uint32_t *ret_count,
                        struct tutti_err *err)
{
    char word[TUTTI_WORD_BYTES];
    uint32_t count = 0;
    int status = 0;

    while (status == 0 && (status = tutti_words_next(&reader->words, word, err)) > 0) {
        if (count == max)
            return tutti_fail(err, TUTTI_EINVAL, "a number too many '%s' (at most %" PRIu32 ")",
                              word, max);
        status = read_u32(word, UINT32_MAX - 1, &numbers[count++], err);
    }
    *ret_count = count;
    return status;
}

static int read_levels(struct reader *reader, struct tutti_err *err)
{
    if (reader->shape.level_count > 0)
        return tutti_fail(err, TUTTI_EINVAL, "a second line of levels");
    int status = read_numbers(reader, reader->shape.level, TUTTI_LEVELS_MAX,
                              &reader->shape.level_count, err);

    if (status == 0 && reader->shape.level_count == 0)
        status = tutti_fail(err, TUTTI_EINVAL, "no levels (numbers such as 8 4)");
    return status;
}

/* "4x4x8" */
static int read_sizes(const char *text, struct tutti_shape *shape, struct tutti_err *err)
{
    const char *p = text;

    for (; *p != '\0'; p += *p == 'x') {
        uint64_t value = 0;
        const char *digits = p;

        for (; isdigit((unsigned char)*p) && value <= UINT32_MAX; p++)
            value = value * 10 + (uint64_t)(*p - '0');
        if (p == digits || value == 0 || value >= UINT32_MAX || (*p != 'x' && *p != '\0') ||
            (*p == 'x' && p[1] == '\0') || shape->dim_count == TUTTI_DIMS_MAX)
            return tutti_fail(err, TUTTI_EINVAL, "not a grid '%s' (1 to %d numbers such as 4x4x8)",
                              text, TUTTI_DIMS_MAX);
        shape->dim[shape->dim_count++] = (uint32_t)value;
    }
    return 0;
}

static int read_dims(struct reader *reader, struct tutti_err *err)
{
    struct tutti_shape *shape = &reader->shape;
    char word[TUTTI_WORD_BYTES];
    const char *wrap;
    int status = tutti_words_need(&reader->words, "a grid such as 4x4x8", word, err);

    if (status == 0 && shape->dim_count > 0)
        status = tutti_fail(err, TUTTI_EINVAL, "a second line of dims");
    if (status == 0)
        status = read_sizes(word, shape, err);
    if (status == 0)
        status = tutti_words_next(&reader->words, word, err);
    if (status <= 0)
        return status;
    wrap = value_of(word, "wrap");
    if (wrap == NULL || strlen(wrap) != shape->dim_count || strspn(wrap, "01") != shape->dim_count)
        return tutti_fail(err, TUTTI_EINVAL, "not a wrap '%s' (wrap= and a 0 or 1 an axis)", word);
    for (uint32_t d = 0; d < shape->dim_count; d++)
        shape->wrap[d] = wrap[d] == '1';
    return 0;
}

static int read_order(struct reader *reader, struct tutti_err *err)
{
    char word[TUTTI_WORD_BYTES];
    uint32_t length = 0;
    int status = 0;

    while (status == 0 && (status = tutti_words_next(&reader->words, word, err)) > 0) {
        if (reader->order_used == reader->order_capacity) {
            size_t capacity = reader->order_capacity == 0 ? 64 : reader->order_capacity * 2;
            uint32_t *orders = realloc(reader->orders, capacity * sizeof(*orders));

            if (orders == NULL)
                return tutti_nomem(err);
            reader->orders = orders;
            reader->order_capacity = capacity;
        }
        status = read_u32(word, UINT32_MAX - 1, &reader->orders[reader->order_used], err);
        reader->order_used++;
        length++;
    }
    if (status == 0 && length == 0)
        status = tutti_fail(err, TUTTI_EINVAL, "an order without ranks");
    if (status == 0 && reader->shape.order_count > 0 && length != reader->order_length)
        status =
            tutti_fail(err, TUTTI_EINVAL, "an order of %" PRIu32 " ranks after one of %" PRIu32,
                       length, reader->order_length);
    reader->order_length = length;
    reader->shape.order_count++;
    return status;
}

static int read_routes(struct reader *reader, struct tutti_err *err)
{
    static const struct {
        const char *name;
        uint32_t min;
        uint32_t max;
    } kinds[TUTTI_ROUTES_KIND_COUNT] = {[TUTTI_ROUTES_SEARCH] = {"search", 0, 0},
                                        [TUTTI_ROUTES_GRID] = {"grid", 0, 3},
                                        [TUTTI_ROUTES_CLUSTER] = {"cluster", 4, 4},
                                        [TUTTI_ROUTES_CUBE] = {"cube", 0, 0},
                                        [TUTTI_ROUTES_TREE] = {"tree", 3, 3}};
    struct tutti_routes *routes = &reader->routes;
    char word[TUTTI_WORD_BYTES];
    uint32_t count = 0;
    int status = tutti_words_need(&reader->words, "search, grid, cube, tree or cluster", word, err);

    if (status < 0)
        return status;
    *routes = (struct tutti_routes){0};
    while (routes->kind < TUTTI_ROUTES_KIND_COUNT && strcmp(kinds[routes->kind].name, word) != 0)
        routes->kind++;
    if (routes->kind == TUTTI_ROUTES_KIND_COUNT)
        return tutti_fail(err, TUTTI_EINVAL,
                          "unknown routes '%s' (search, grid, cube, tree, cluster)", word);
    status = read_numbers(reader, routes->args, kinds[routes->kind].max, &count, err);
    if (status == 0 && count < kinds[routes->kind].min)
        status = tutti_fail(err, TUTTI_EINVAL, "routes %s with %" PRIu32 " numbers (%" PRIu32 ")",
                            word, count, kinds[routes->kind].min);
    return status;
}

static int read_net(struct reader *reader, struct tutti_err *err)
{
    char word[TUTTI_WORD_BYTES];
    int status =
        tutti_words_need(&reader->words, "ib, roce, efa, slingshot, tcp, tcpx or tcpxo", word, err);

    for (int k = TUTTI_NET_UNKNOWN + 1; k < TUTTI_NET_KIND_COUNT && status == 0; k++) {
        if (strcmp(word, tutti_net_kind_name((enum tutti_net_kind)k)) == 0) {
            tutti_topo_set_net_kind(reader->builder, (enum tutti_net_kind)k);
            return 0;
        }
    }
    return status < 0
               ? status
               : tutti_fail(err, TUTTI_EINVAL,
                            "unknown net '%s' (ib, roce, efa, slingshot, tcp, tcpx, tcpxo)", word);
}

/* The rest of the line as a name or a source. */
static int read_title(struct reader *reader, bool source, struct tutti_err *err)
{
    char *text = tutti_words_rest(&reader->words);
    int status;

    if (text == NULL)
        return tutti_nomem(err);
    if (text[0] == '\0' || (source ? reader->sourced : reader->named))
        status = tutti_fail(err, TUTTI_EINVAL, "%s %s", text[0] == '\0' ? "no" : "a second",
                            source ? "source" : "name");
    else
        status =
            tutti_topo_set_title(reader->builder, source ? NULL : text, source ? text : NULL, err);
    free(text);
    reader->named = reader->named || !source;
    reader->sourced = reader->sourced || source;
    return status;
}

static int read_line(struct reader *reader, struct tutti_err *err)
{
    char word[TUTTI_WORD_BYTES];
    int status = tutti_words_next(&reader->words, word, err);

    if (status <= 0)
        return status;
    if (strcmp(word, "node") == 0)
        return read_node(reader, err);
    if (strcmp(word, "link") == 0 || strcmp(word, "cable") == 0)
        return read_link(reader, word[0] == 'c', err);
    if (strcmp(word, "levels") == 0)
        return read_levels(reader, err);
    if (strcmp(word, "order") == 0)
        return read_order(reader, err);
    if (strcmp(word, "hardware") == 0)
        return tutti_hw_read(&reader->words, &reader->hardware, err);
    if (strcmp(word, "topology") == 0 || strcmp(word, "source") == 0)
        return read_title(reader, word[0] == 's', err);
    if (strcmp(word, "dims") == 0)
        status = read_dims(reader, err);
    else if (strcmp(word, "routes") == 0)
        status = read_routes(reader, err);
    else if (strcmp(word, "net") == 0)
        status = read_net(reader, err);
    else
        return tutti_fail(err, TUTTI_EINVAL,
                          "unknown statement '%s' (topology, source, node, link, cable, levels, "
                          "dims, order, routes, net, hardware)",
                          word);
    return status < 0 ? status : tutti_words_end(&reader->words, err);
}

/* A NUL or an escape is a file of another kind, and would not be printed back. */
static int check_text(const char *p, const char *stop, struct tutti_err *err)
{
    for (; p < stop; p++)
        if (iscntrl((unsigned char)*p) && *p != '\t' && *p != '\r')
            return tutti_fail(err, TUTTI_EINVAL, "a byte 0x%02x that is no text",
                              (unsigned)(unsigned char)*p);
    return 0;
}

static int read_all(struct reader *reader, const char *name, const char *text, size_t bytes,
                    struct tutti_err *err)
{
    static const char mark[] = "\xef\xbb\xbf"; /* some editors begin UTF-8 with it */
    const char *begin = bytes >= 3 && memcmp(text, mark, 3) == 0 ? text + 3 : text;
    const char *end = text + bytes;
    struct tutti_hardware hardware;
    uint32_t line = 1;
    int status = 0;

    for (const char *p = begin; p < end && status >= 0; line++) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        const char *stop = newline != NULL ? newline : end;

        tutti_words_open(&reader->words, p, stop);
        status = check_text(p, stop, err);
        if (status == 0)
            status = read_line(reader, err);
        if (status < 0)
            return tutti_wrap(err, status, "%s: line %" PRIu32, name, line);
        p = newline != NULL ? newline + 1 : end;
    }
    reader->shape.rank_count = reader->order_length;
    reader->shape.orders = reader->orders;
    status = tutti_topo_set_shape(reader->builder, &reader->shape, err);
    tutti_topo_set_routes(reader->builder, &reader->routes);
    if (status < 0 || tutti_hw_builder_is_empty(&reader->hardware))
        return status;
    hardware = tutti_hw_builder_view(&reader->hardware);
    status = tutti_topo_set_hardware(reader->builder, &hardware, err);
    return status < 0 ? tutti_wrap(err, status, "%s", name) : 0;
}

int tutti_topo_parse(const char *name, const char *text, size_t bytes, struct tutti_topo **ret,
                     struct tutti_err *err)
{
    struct reader reader = {0};
    int status = tutti_topo_builder_new(name, NULL, &reader.builder, err);

    if (status == 0)
        status = read_all(&reader, name, text, bytes, err);
    free(reader.names.slots);
    free(reader.names.text);
    free(reader.orders);
    tutti_hw_builder_done(&reader.hardware);
    if (status < 0) {
        tutti_topo_builder_free(reader.builder);
        return status;
    }
    status = tutti_topo_freeze(reader.builder, ret, err);
    return status < 0 ? tutti_wrap(err, status, "%s", name) : 0;
}
