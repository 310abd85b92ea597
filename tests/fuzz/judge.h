/* What must hold of anything a reader made or refused; shared by the fuzz targets. */
#ifndef TUTTI_TESTS_FUZZ_JUDGE_H
#define TUTTI_TESTS_FUZZ_JUDGE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "topo/describe.h"
#include "topo/hardware.h"
#include "topo/topo.h"

#define JUDGE(condition)                                                                   \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                       \
        }                                                                                  \
    } while (0)

/* A refusal: the status is one of ours, and the message is one visible line. */
static inline void judge_refusal(int status, const struct tutti_err *err)
{
    JUDGE(status == -TUTTI_EINVAL || status == -TUTTI_ENOMEM || status == -TUTTI_ELACK);
    JUDGE(err->text[0] != '\0');
    for (const char *p = err->text; *p != '\0'; p++)
        JUDGE((unsigned char)*p >= 0x20 && *p != 0x7f);
}

static inline void judge_links(const struct tutti_topo *topo)
{
    uint64_t outs = 0;

    for (uint32_t v = 0; v < topo->node_count; v++) {
        outs += tutti_topo_out_count(topo, v);
        for (uint32_t k = 0; k < tutti_topo_out_count(topo, v); k++)
            JUDGE(tutti_topo_link(topo, tutti_topo_out_link(topo, v, k)).from == v);
    }
    JUDGE(outs == topo->link_count);
    for (uint32_t l = 0; l < topo->link_count; l++) {
        struct tutti_link link = tutti_topo_link(topo, l);

        JUDGE(link.from < topo->node_count && link.to < topo->node_count);
        JUDGE(link.from != link.to && link.bytes_per_s > 0 && link.latency_ps >= 0);
        JUDGE(link.kind < TUTTI_LINK_KIND_COUNT && link.cable_count >= 1);
    }
}

/* A route is a way: each link begins where the one before it ended. */
static inline void judge_route(const struct tutti_topo *topo, uint32_t from, uint32_t to)
{
    uint32_t links[256];
    uint32_t count = tutti_topo_route(topo, from, to, links, 256);
    uint32_t at = tutti_topo_rank_node(topo, from);

    JUDGE(count <= topo->node_count);
    JUDGE((count == 0) == (from == to));
    for (uint32_t i = 0; i < count && i < 256; i++) {
        JUDGE(links[i] < topo->link_count && tutti_topo_link(topo, links[i]).from == at);
        at = tutti_topo_link(topo, links[i]).to;
    }
    JUDGE(count > 256 || at == tutti_topo_rank_node(topo, to));
}

/* parse(print(topo)) prints the same text. */
static inline void judge_round_trip(const struct tutti_topo *topo)
{
    struct tutti_topo *back = NULL;
    struct tutti_err err = {""};
    char *first = NULL;
    char *second = NULL;

    JUDGE(tutti_topo_print(topo, &first, &err) == 0);
    if (tutti_topo_parse("printed", first, strlen(first), &back, &err) != 0) {
        fprintf(stderr, "%s\n%s", err.text, first);
        JUDGE(false && "what was printed is refused");
    }
    JUDGE((back->hardware == NULL) == (topo->hardware == NULL));
    JUDGE(topo->hardware == NULL || tutti_hardware_check(topo->hardware, &err) == 0);
    JUDGE(back->node_count == topo->node_count && back->rank_count == topo->rank_count);
    JUDGE(tutti_topo_print(back, &second, &err) == 0);
    if (strcmp(first, second) != 0) {
        fprintf(stderr, "%s\nread and printed again:\n%s", first, second);
        JUDGE(false && "what was printed does not print the same");
    }
    free(first);
    free(second);
    tutti_topo_free(back);
}

/* What is asked of any machine has an answer: bounds, figures, a picture. */
static inline void judge_answers(const struct tutti_topo *topo)
{
    struct tutti_description about;
    struct tutti_err err = {""};
    char *svg = NULL;

    for (int c = 0; c < TUTTI_CUSTOM; c++) {
        struct tutti_contract contract = {.collective = (enum tutti_collective)c,
                                          .dtype = TUTTI_FLOAT32,
                                          .op = TUTTI_SUM,
                                          .root = topo->rank_count - 1,
                                          .count = 1000000};
        struct tutti_bound bound;

        JUDGE(tutti_topo_bound(topo, &contract, &bound, &err) == 0);
        JUDGE(bound.bandwidth_ps >= 0 && bound.latency_ps >= 0 && bound.binding[0] != '\0');
        JUDGE(bound.time_ps >= bound.bandwidth_ps && bound.time_ps >= bound.latency_ps);
        JUDGE(topo->rank_count == 1 || c == TUTTI_BARRIER || bound.time_ps > 0 ||
              tutti_topo_link(topo, 0).bytes_per_s > 1000000000000);
    }
    JUDGE(tutti_topo_describe(topo, &about, &err) == 0);
    JUDGE(about.rank_out_min <= about.rank_out_max);
    JUDGE((about.bisection_bytes_per_s > 0) == (topo->rank_count > 1));
    JUDGE(tutti_topo_svg(topo, &svg, &err) == 0);
    JUDGE(strncmp(svg, "<svg ", 5) == 0 && strcmp(svg + strlen(svg) - 7, "</svg>\n") == 0);
    free(svg);
}

static inline void judge_topo(const struct tutti_topo *topo)
{
    uint32_t devices = 0;
    uint32_t n = topo->rank_count;

    JUDGE(n >= 1 && topo->name != NULL && topo->source != NULL);
    for (uint32_t v = 0; v < topo->node_count; v++) {
        struct tutti_node node = tutti_topo_node(topo, v);

        char name[TUTTI_NODE_NAME_BYTES];

        JUDGE(node.kind < TUTTI_NODE_KIND_COUNT);
        JUDGE(tutti_topo_node_name(topo, v, name)[0] != '\0');
        JUDGE(node.host < topo->host_count || node.host == UINT32_MAX);
        devices += node.kind == TUTTI_NODE_DEVICE;
    }
    JUDGE(devices == n);
    for (uint32_t r = 0; r < n; r++) {
        JUDGE(tutti_topo_rank_node(topo, r) < topo->node_count);
        JUDGE(tutti_topo_node(topo, tutti_topo_rank_node(topo, r)).rank == r);
    }
    judge_links(topo);
    for (uint32_t r = 0; r < n && r < 16; r++) {
        judge_route(topo, r, (r * 7 + 3) % n);
        judge_route(topo, n - 1 - r, r);
    }
    judge_round_trip(topo);
    judge_answers(topo);
}

#endif
