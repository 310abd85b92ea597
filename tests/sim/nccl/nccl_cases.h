/* Cases for tests of NCCL's schedules: hosts with chains, shares of channels, ways to cut. */
#ifndef TUTTI_TESTS_SIM_NCCL_NCCL_CASES_H
#define TUTTI_TESTS_SIM_NCCL_NCCL_CASES_H

#include "runtime/nccl_coll.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "tests/test.h"

enum { NCCL_MEMBERS_MAX = 256 };

/* Shares of `channel_count` channels: equal in the middle, the first and the last as drawn. */
static inline void nccl_case_shares(struct tutti_nccl_params *params, uint64_t draw)
{
    uint64_t count = params->coll.count;
    uint64_t channels = params->coll.channel_count == 0 ? 1 : params->coll.channel_count;

    params->count_lo = count;
    params->count_mid = params->count_hi = 0;
    if (channels == 1)
        return;
    params->count_mid = channels > 2 ? count / channels : 0;
    count -= params->count_mid * (channels - 2);
    params->count_lo = count - count * (draw % 5) / 8;
    params->count_hi = count - params->count_lo;
}

/* Chains that are rotated, every other one reversed; `members` is the caller's. */
static inline struct tutti_chains nccl_case_chains(uint32_t host_count, uint32_t length,
                                                   uint32_t count, bool swapped, uint32_t *members)
{
    for (uint32_t c = 0; c < count; c++)
        for (uint32_t i = 0; i < length; i++)
            members[c * length + i] = ((c % 2 == 0 ? i : length - 1 - i) + c) % length;
    return (struct tutti_chains){.host_count = host_count,
                                 .length = length,
                                 .count = count,
                                 .members = count == 1 ? NULL : members,
                                 .swapped = swapped && count % 2 == 0};
}

static inline const char *nccl_case_text(const char *algorithm,
                                         const struct tutti_nccl_params *params,
                                         const struct tutti_chains *chains, char *buf,
                                         size_t buf_bytes)
{
    const struct tutti_coll_params *p = &params->coll;

    (void)snprintf(buf, buf_bytes,
                   "%s %s, %u hosts of %u, %u chains%s, pattern %u: count %" PRIu64
                   " root %u channels %u (%" PRIu64 " %" PRIu64 " %" PRIu64 ") chunk %" PRIu64
                   " slices %u slots %u",
                   algorithm, tutti_collective_name(p->collective), chains->host_count,
                   chains->length, chains->count, chains->swapped ? " swapped" : "",
                   params->pattern, p->count, p->root, p->channel_count, params->count_lo,
                   params->count_mid, params->count_hi, p->chunk_bytes, p->slice_count,
                   p->slot_count);
    return buf;
}

/* What is drawn for one case. */
struct nccl_case {
    struct tutti_nccl_params params;
    struct tutti_chains chains;
    uint32_t members[NCCL_MEMBERS_MAX];
};

/* A case of the collective, number `index`: its parameters follow from that and the seed. */
static inline void nccl_case_draw(struct nccl_case *c, enum tutti_collective collective,
                                  uint32_t host_count, uint32_t length, uint64_t index)
{
    static const enum tutti_dtype dtypes[] = {TUTTI_FLOAT32, TUTTI_INT8, TUTTI_FLOAT64,
                                              TUTTI_BFLOAT16};
    static const uint32_t slots[] = {8, 4, 2, 3};
    uint64_t h = tutti_random_hash(test_seed, host_count * UINT64_C(1000) + length, index, 7);
    uint32_t n = host_count * length;
    uint32_t slice_count = (uint32_t)(1 + (h >> 3) % 2);

    c->chains = nccl_case_chains(host_count, length, (uint32_t)(1 + (h >> 5) % 4),
                                 (h >> 8) % 2 == 0, c->members);
    c->params = (struct tutti_nccl_params){
        .coll = {.collective = collective,
                 .dtype = dtypes[(h >> 10) % 4],
                 .op = (h >> 12) % 3 == 0 ? TUTTI_AVG : TUTTI_SUM,
                 .root = (uint32_t)((h >> 14) % n),
                 .count = (h >> 20) % 4 == 0 ? (h >> 24) % 8 : (h >> 24) % (40 * (uint64_t)n),
                 .channel_count = (uint32_t)(1 + (h >> 40) % 5),
                 .chunk_bytes =
                     (h >> 44) % 3 == 0 ? UINT64_C(1) << 20 : UINT64_C(8) << (h >> 46) % 6,
                 .slice_count = slice_count,
                 .slot_count = slots[(h >> 50) % 4]},
        .chunk_lo_bytes = (h >> 42) % 3 == 0 ? UINT64_C(16) << (h >> 33) % 6 : 0,
        .chunk_hi_bytes = (h >> 43) % 3 == 0 ? UINT64_C(8) << (h >> 35) % 6 : 0,
        .pattern = (uint8_t)(1 + (h >> 54) % 3),
        .step_bytes = (h >> 61) % 2 == 0 ? 0 : UINT64_C(32) << (h >> 52) % 8,
        .peer_channel_count = (uint32_t)(1 + (h >> 56) % 4),
        .part_bytes_min = (h >> 58) % 2 == 0 ? 0 : 64,
        .part_bytes_max = (h >> 59) % 2 == 0 ? 0 : 4096,
        .net_chunk_bytes = (h >> 60) % 2 == 0 ? 0 : 16};
    if (collective == TUTTI_ALLTOALL || collective == TUTTI_SENDRECV)
        c->params.coll.channel_count = UINT32_C(1) << (h >> 40) % 4;
    nccl_case_shares(&c->params, h >> 58);
}

/* Makes, checks and proves it; NULL after a failure. The caller frees it. */
static inline struct tutti_schedule *nccl_case_prove(const char *algorithm,
                                                     const struct nccl_case *c)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};
    char what[512];
    int status = tutti_nccl_generate(algorithm, &c->params, &c->chains, &schedule, &err);

    if (status == 0)
        status = tutti_schedule_check(schedule, &err);
    if (status == 0)
        status = tutti_schedule_prove(schedule, &err);
    if (status == 0)
        return schedule;
    TEST_FAIL("%s: %s", nccl_case_text(algorithm, &c->params, &c->chains, what, sizeof(what)),
              err.text);
    tutti_schedule_free(schedule);
    return NULL;
}

#endif
