/* Costs stretched; see stretch.h. */
#include "sim/predict/stretch.h"

#include "runtime/wide.h"

static uint64_t part(uint64_t whole, uint32_t ppm)
{
    uint64_t left = tutti_muldiv(whole, ppm, TUTTI_PPM);

    return whole > 0 && left == 0 ? 1 : left;
}

static tutti_ps longer(tutti_ps whole_ps, uint32_t ppm)
{
    return (tutti_ps)tutti_muldiv((uint64_t)whole_ps, TUTTI_PPM, ppm);
}

struct tutti_stretch tutti_stretch_none(void)
{
    struct tutti_stretch none = {.launched = true, .lane_ppm = TUTTI_PPM, .slice_ppm = TUTTI_PPM};

    for (int hop = 0; hop < TUTTI_HOP_COUNT; hop++)
        none.link_ppm[hop] = TUTTI_PPM;
    return none;
}

static void stretch_switches(const struct tutti_stretch *stretch, struct tutti_protocol *own)
{
    uint32_t ppm = stretch->link_ppm[TUTTI_HOP_NVLINK];

    own->nvls.lane_bytes_per_s = part(own->nvls.lane_bytes_per_s, stretch->lane_ppm);
    own->nvls.link_ppm =
        (uint32_t)part(own->nvls.link_ppm > 0 ? own->nvls.link_ppm : TUTTI_PPM, ppm);
    own->nvls.tree_link_ppm = (uint32_t)part(own->nvls.tree_link_ppm, ppm);
    own->nvls.tree_ppm = stretch->lane_ppm;
    own->nvls.stage_ps += stretch->message_ps;
    own->nvls.loop_ps = longer(own->nvls.loop_ps, stretch->slice_ppm);
}

const struct tutti_protocol *tutti_stretch_costs(const struct tutti_stretch *stretch,
                                                 const struct tutti_protocol *protocol,
                                                 struct tutti_protocol *own)
{
    if (stretch == NULL)
        return protocol;
    *own = (struct tutti_protocol){.name = "none", .wire_num = 1, .wire_den = 1};
    if (protocol != NULL)
        *own = *protocol;
    for (int hop = 0; hop < TUTTI_HOP_COUNT; hop++) {
        uint32_t ppm = own->link_ppm[hop] > 0 ? own->link_ppm[hop] : TUTTI_PPM;

        own->message_ps[hop] += stretch->message_ps;
        own->slice_ps[hop] = longer(own->slice_ps[hop], stretch->slice_ppm);
        own->lane_bytes_per_s[hop] = part(own->lane_bytes_per_s[hop], stretch->lane_ppm);
        own->link_ppm[hop] = (uint32_t)part(ppm, stretch->link_ppm[hop]);
    }
    if (!stretch->launched)
        own->nvls.launch_ps = own->launch_ps = 0;
    stretch_switches(stretch, own);
    return own;
}
