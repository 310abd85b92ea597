/* Protocols as a calibration may make them, for random tests: NCCL's own, and others that keep the
 * messages of a connection apart and use less of some links; and the fitted ones. */
#ifndef TUTTI_TESTS_SIM_PACED_H
#define TUTTI_TESTS_SIM_PACED_H

#include "runtime/random.h"
#include "sim/calib.h"
#include "sim/protocol.h"

static inline uint32_t paced_below(struct tutti_random *random, uint32_t bound)
{
    return (uint32_t)tutti_random_below(random, bound);
}

/* Every figure may be 0, small beside what messages take, or large. */
static inline void draw_pace(struct tutti_random *random, struct tutti_protocol *protocol, int hop)
{
    static const uint64_t rates[] = {1, 900000, 3000000000, 21000000000, 47000000000, 300000000000};

    protocol->message_ps[hop] = paced_below(random, 5000000);
    protocol->slice_ps[hop] = 0;
    protocol->lane_bytes_per_s[hop] = 0;
    protocol->link_ppm[hop] = 0;
    if (paced_below(random, 2) == 0)
        protocol->slice_ps[hop] = paced_below(random, paced_below(random, 2) == 0 ? 100 : 3000000);
    if (paced_below(random, 2) == 0)
        protocol->lane_bytes_per_s[hop] =
            rates[paced_below(random, 6)] + paced_below(random, 1000000);
    if (paced_below(random, 2) == 0)
        protocol->link_ppm[hop] = 1 + paced_below(random, TUTTI_PPM);
}

/* All protocols, two times in three with a pace; every kind of hop its own, or all the same. */
static inline void draw_protocols(struct tutti_random *random,
                                  struct tutti_protocol protocols[TUTTI_PROTOCOLS])
{
    size_t count;
    const struct tutti_protocol *known = tutti_protocols(&count);
    uint32_t how = paced_below(random, 3);

    for (size_t i = 0; i < TUTTI_PROTOCOLS; i++) {
        protocols[i] = known[i];
        for (int hop = 0; hop < TUTTI_HOP_COUNT && how > 0; hop++) {
            if (hop == 0 || how == 1) {
                draw_pace(random, &protocols[i], hop);
                continue;
            }
            protocols[i].message_ps[hop] = protocols[i].message_ps[0];
            protocols[i].slice_ps[hop] = protocols[i].slice_ps[0];
            protocols[i].lane_bytes_per_s[hop] = protocols[i].lane_bytes_per_s[0];
            protocols[i].link_ppm[hop] = protocols[i].link_ppm[0];
        }
    }
}

/* The same, or, one time in four, what was fitted to measurements: what predictions go by unless
 * told otherwise. */
static inline void draw_costs(struct tutti_random *random, const struct tutti_topo *topo,
                              struct tutti_protocol protocols[TUTTI_PROTOCOLS])
{
    struct tutti_calibrated fitted;

    draw_protocols(random, protocols);
    if (paced_below(random, 4) > 0 || tutti_calibrated_for(topo, &fitted, NULL) < 0)
        return;
    for (size_t i = 0; i < TUTTI_PROTOCOLS; i++)
        protocols[i] = fitted.protocols[i];
}

#endif
