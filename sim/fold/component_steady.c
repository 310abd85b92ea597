/* Skips rounds that repeat, as sim/fold/steady.c does, whenever the message that wire 0 has sent is
 * ready. The state, relative to that time and to how many messages wire 0 has sent, is compared
 * with one written down earlier, word by word, the doubles bit by bit, up to the first that
 * differs. What was taken or sent before does not matter: what comes later comes once something
 * arrives later. The state that is kept is replaced after ever more comparisons, as there. */
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/fold/component.h"
#include "sim/net/net.h"

enum { WIRE_WORDS = 7 }; /* beside those of its slots */

struct tutti_component_steady {
    int64_t *then;  /* [wire * wire_words]: the state that is kept */
    int64_t *words; /* [wire_words]: of one wire now */
    uint32_t wire_words;
    tutti_ps then_ps;
    uint64_t then_count;  /* messages that wire 0 had sent */
    uint64_t compared;    /* states since it was kept */
    uint64_t compare_max; /* before it is replaced; 0: there is none yet */
};

/* What decides how a wire and its lane go on. */
static void write_wire(const struct tutti_components *components, uint32_t id, int64_t *out)
{
    const struct tutti_component_wire *wire = &components->wires[id];
    const struct tutti_component *component = &components->components[wire->component];
    uint64_t bit = UINT64_C(1) << (id - component->first);
    uint32_t slot = wire->queued_slot;

    memset(out, 0, (WIRE_WORDS + components->slot_count) * sizeof(*out));
    out[0] = (int64_t)(wire->sent_count - components->wires[0].sent_count);
    out[1] = wire->queued_count;
    out[2] = wire->arrived_count;
    if ((component->draining & bit) != 0) {
        _Static_assert(sizeof(double) == sizeof(int64_t), "a double is a word");
        memcpy(&out[3], &wire->left_bytes, sizeof(wire->left_bytes));
        memcpy(&out[4], &wire->rate, sizeof(wire->rate));
        out[5] = wire->since_ps - components->mark_ps;
        out[6] = components->event_ps[id] - components->mark_ps;
    } else if ((component->beginning & bit) != 0) {
        out[6] = components->event_ps[id] - components->mark_ps + 1; /* not 0 */
    }
    for (uint32_t i = 0; i < wire->queued_count; i++) {
        out[WIRE_WORDS + i] = components->slots[(size_t)id * components->slot_count + slot].at_ps -
                              components->mark_ps;
        slot = slot + 1 < components->slot_count ? slot + 1 : 0;
    }
}

static bool is_same(const struct tutti_component_steady *steady,
                    const struct tutti_components *components)
{
    for (uint32_t id = 0; id < components->wire_count; id++) {
        write_wire(components, id, steady->words);
        if (memcmp(steady->words, &steady->then[(size_t)id * steady->wire_words],
                   steady->wire_words * sizeof(*steady->words)) != 0)
            return false;
    }
    return true;
}

static void keep(struct tutti_component_steady *steady, const struct tutti_components *components)
{
    for (uint32_t id = 0; id < components->wire_count; id++)
        write_wire(components, id, &steady->then[(size_t)id * steady->wire_words]);
    steady->then_ps = components->mark_ps;
    steady->then_count = components->wires[0].sent_count;
    steady->compared = 0;
    steady->compare_max += 1 + steady->compare_max / 4;
}

/* How often all that has happened since can happen again: no lane sends more than it has to, and
 * the clock does not run over. */
static uint64_t count_runs(const struct tutti_component_steady *steady,
                           const struct tutti_components *components)
{
    uint64_t messages = components->wires[0].sent_count - steady->then_count;
    uint64_t run_ps = (uint64_t)(components->mark_ps - steady->then_ps);
    uint64_t sent = 0;
    uint64_t within_clock;
    uint64_t runs;

    if (run_ps == 0)
        return 0;
    within_clock = (uint64_t)(INT64_MAX / 2 - components->mark_ps) / run_ps;
    for (uint32_t id = 0; id < components->wire_count; id++)
        sent = components->wires[id].sent_count > sent ? components->wires[id].sent_count : sent;
    runs = (components->round_count - sent) / messages;
    return runs < within_clock ? runs : within_clock;
}

static void skip(struct tutti_components *components, uint64_t messages, tutti_ps later_ps)
{
    for (uint32_t id = 0; id < components->wire_count; id++) {
        struct tutti_component_wire *wire = &components->wires[id];

        wire->sent_count += messages;
        wire->received_count += messages;
        wire->now_ps += later_ps;
        wire->since_ps += later_ps;
        if (components->event_ps[id] < INT64_MAX)
            components->event_ps[id] += later_ps;
        for (uint32_t i = 0; i < components->slot_count; i++)
            components->slots[(size_t)id * components->slot_count + i].at_ps += later_ps;
    }
    for (uint32_t i = 0; i < components->component_count; i++) {
        if (components->components[i].next_ps < INT64_MAX)
            components->components[i].next_ps += later_ps;
    }
}

void tutti_component_steady_watch(struct tutti_component_steady *steady,
                                  struct tutti_components *components)
{
    uint64_t messages = components->wires[0].sent_count - steady->then_count;
    uint64_t runs = 0;

    if (steady->compare_max > 0 && messages > 0 && is_same(steady, components))
        runs = count_runs(steady, components);
    if (runs > 0) {
        skip(components, runs * messages, (tutti_ps)runs * (components->mark_ps - steady->then_ps));
        components->mark_ps = TUTTI_COMPONENT_NEVER_PS; /* less than one more such run is left */
        return;
    }
    if (++steady->compared >= steady->compare_max)
        keep(steady, components);
    components->mark_ps = INT64_MAX;
}

int tutti_component_steady_new(const struct tutti_components *components,
                               struct tutti_component_steady **ret, struct tutti_err *err)
{
    struct tutti_component_steady *steady = calloc(1, sizeof(*steady));

    if (steady == NULL)
        return tutti_nomem(err);
    steady->wire_words = WIRE_WORDS + components->slot_count;
    steady->then =
        calloc((size_t)components->wire_count * steady->wire_words, sizeof(*steady->then));
    steady->words = calloc(steady->wire_words, sizeof(*steady->words));
    if (steady->then == NULL || steady->words == NULL) {
        tutti_component_steady_free(steady);
        return tutti_nomem(err);
    }
    *ret = steady;
    return 0;
}

void tutti_component_steady_free(struct tutti_component_steady *steady)
{
    if (steady == NULL)
        return;
    free(steady->then);
    free(steady->words);
    free(steady);
}
