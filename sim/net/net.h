/* The network models: how long messages take that share the links of a machine. The table holds
 * what a model does event by event; the shortcuts of sim/play and sim/fold ask which model it is.
 */
#ifndef TUTTI_SIM_NET_NET_H
#define TUTTI_SIM_NET_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/units.h"
#include "sim/protocol.h"
#include "sim/sim.h"

struct tutti_err;
struct tutti_memory;
struct tutti_net;

#define TUTTI_MESSAGE_NONE UINT32_MAX

/* The links of the machine, as the models need them: a rate each, and perhaps a token bucket.
 *
 * A bucket (struct tutti_link) is reckoned by when it will be full again, F: a message of `bytes`
 * that finds it so at `now`, on a link of rate r and depth b, moves F to max(F, now) + bytes / r,
 * and is through at max(now, F - b / r). So after an idle gap of the link
 *     time = latency + max(0, bytes - min(b, r * gap)) / r,
 * b being full at the start of a play, and what of a message the bucket holds takes no time. Where
 * one message at a time uses a link that is exact for its bucket (a shaper of rate r and burst b
 * before a line that is infinitely fast). On a route of several links the least bucket of those
 * counts that have one, and the message takes no less than bytes / rate of those that have none.
 * This is not modelled:
 *   - the line's own rate, and packets: what a bucket holds is gone at once;
 *   - alphabeta: buckets of other links than the first, whoever else empties them;
 *   - fair: messages share no tokens: those that are there go to the one that begins first, and
 *     those that come while it drains to the next one. */
struct tutti_net_links {
    uint32_t link_count;
    const uint64_t *bytes_per_s; /* [link_count], borrowed, none is 0 */
    const uint32_t *burst_bytes; /* [link_count], borrowed; NULL: no link has a bucket */
    struct tutti_memory *memory; /* NULL: the heap */
};

/* One message to start. Connections and messages are small numbers that the caller gives out; a
 * message number is free again once the message has arrived. */
struct tutti_net_send {
    uint32_t message;
    uint32_t connection;
    uint64_t bytes;       /* on the wire */
    tutti_ps latency_ps;  /* of route and protocol, already stretched */
    uint64_t stretch_q32; /* wire time is multiplied by 1 + stretch_q32 / 2^32 */
};

/* A model. The clock is the caller's: `now` never runs back between two resets. Only open, connect
 * and reserve take memory. */
struct tutti_net_ops {
    size_t size; /* sizeof(struct tutti_net_ops) */
    const char *name;
    int (*open)(const struct tutti_net_links *links, struct tutti_net **ret, struct tutti_err *err);
    void (*close)(struct tutti_net *net);
    void (*reset)(struct tutti_net *net); /* forgets all messages, keeps connections and memory */
    /* Declares the next connection (0, 1, 2, ...), its route of at least one link, and what keeps
     * its messages apart beside the links. */
    int (*connect)(struct tutti_net *net, const uint32_t *links, uint32_t link_count,
                   struct tutti_pace pace);
    int (*reserve)(struct tutti_net *net, uint32_t message_count);
    void (*start)(struct tutti_net *net, const struct tutti_net_send *send, tutti_ps now);
    /* When something happens next, not before `now`; false: nothing is under way. */
    bool (*next)(struct tutti_net *net, tutti_ps now, tutti_ps *ret);
    /* Works off what happens up to `now`; returns a message that has arrived, one a call, or
     * TUTTI_MESSAGE_NONE once there is none left. */
    uint32_t (*arrived)(struct tutti_net *net, tutti_ps now);
};

struct tutti_net {
    const struct tutti_net_ops *ops; /* a model embeds this struct as its first member */
    uint64_t look_count; /* at flows of links, to share them: what it has taken so far, about */
    struct tutti_memory *memory;
};

extern const struct tutti_net_ops tutti_net_alphabeta;
extern const struct tutti_net_ops tutti_net_fair;

/* The model of a number. */
const struct tutti_net_ops *tutti_net_of(enum tutti_model model);

static inline tutti_ps tutti_later_ps(tutti_ps a, tutti_ps b)
{
    return a > b ? a : b;
}

/* a + b of two times that are not negative; saturates at INT64_MAX. */
static inline tutti_ps tutti_add_ps(tutti_ps a, tutti_ps b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* ps * (1 + stretch_q32 / 2^32), rounded down; saturates at INT64_MAX. */
tutti_ps tutti_stretch_ps(tutti_ps ps, uint64_t stretch_q32);

/* The same for the bytes of a message in `fair`, and the time that bytes take to drain, rounded up.
 * Whole numbers are divided exactly; for others a few units of the double's last place are
 * forgiven, lest a whole result that came out a hair too large goes up. */
double tutti_stretch_bytes(uint64_t bytes, uint64_t stretch_q32);
tutti_ps tutti_drain_ps(double bytes, double rate);

/* The least bucket of the links of a route that have one; 0: none has. And the least rate of those
 * that have none; 0: all have. */
struct tutti_net_bucket {
    uint32_t burst_bytes;
    uint64_t plain_bytes_per_s;
};
struct tutti_net_bucket tutti_net_route_bucket(const struct tutti_net_links *all,
                                               const uint32_t *links, uint32_t link_count);

/* Room for at least `needed` objects of `size` bytes in *memory, doubling: 0 or -TUTTI_ENOMEM. The
 * new part is not initialised. */
int tutti_grow(void *memory_pointer, uint32_t *capacity, uint64_t needed, size_t size);

#endif
