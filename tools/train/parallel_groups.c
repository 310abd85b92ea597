/* Who is grouped with whom, and how groups lie on hosts; see parallel.h. */
#include <stdio.h>

#include "tools/cli/page.h"
#include "tools/train/parallel.h"
#include "topo/topo.h"

enum { LIES_BYTES = 64, HOSTS_SEEN_MAX = 4096 };

static const struct {
    enum tutti_parallel_group group;
    const char *name;
    const char *what;
} kinds[] = {
    {TUTTI_GROUP_TENSOR, "tp", "partial sums of each layer"},
    {TUTTI_GROUP_CONTEXT, "cp", "keys and values"},
    {TUTTI_GROUP_EXPERT, "ep", "tokens to experts and back"},
    {TUTTI_GROUP_DATA, "dp", "gradients"},
    {TUTTI_GROUP_EXPERT_DATA, "edp", "gradients of experts"},
    {TUTTI_GROUP_SHARD, "shard", "shares of states"},
    {TUTTI_GROUP_ACROSS, "across", "gradients of the same share"},
    {TUTTI_GROUP_PIPELINE, "pp", "activations between stages"},
};

_Static_assert(sizeof(kinds) / sizeof(kinds[0]) <= TUTTI_TRAIN_GROUPS_MAX, "a group for each");

/* What is the same as another, or not there, is not told. */
static bool is_shown(const struct tutti_parallel *cut, enum tutti_parallel_group group)
{
    const bool shards = cut->sharding != TUTTI_SHARD_NONE && cut->shard_ranks > 0 &&
                        cut->shard_ranks < cut->context * cut->data;

    switch (group) {
    case TUTTI_GROUP_EXPERT_DATA:
        return cut->expert > 1;
    case TUTTI_GROUP_SHARD:
    case TUTTI_GROUP_ACROSS:
        return shards;
    default:
        return true;
    }
}

static uint32_t host_of(const struct tutti_topo *topo, uint32_t rank)
{
    return tutti_topo_node(topo, tutti_topo_rank_node(topo, rank)).host;
}

/* Members of a group come to hosts in the order of their ranks. A machine that is one thing,
 * without hosts, says nothing of them. */
static void place_group(const struct tutti_topo *topo, const struct tutti_axis *axis,
                        uint32_t number, struct tutti_train_parallel_group *ret)
{
    uint32_t host_count = 0, here = 0, last = 0;

    for (uint32_t i = 0; i < axis->size; i++) {
        const uint32_t host = host_of(topo, tutti_axis_rank(axis, number, i));

        if (host == UINT32_MAX)
            return;
        if (i == 0 || host != last) {
            host_count++;
            here = 0;
        }
        here++;
        ret->of_host = here > ret->of_host ? here : ret->of_host;
        last = host;
    }
    ret->host_count = host_count > ret->host_count ? host_count : ret->host_count;
}

void tutti_train_parallel_groups(const struct tutti_parallel *cut, const struct tutti_topo *topo,
                                 struct tutti_train_parallel_groups *ret)
{
    *ret = (struct tutti_train_parallel_groups){.count = 0};
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        struct tutti_train_parallel_group *group = &ret->group[ret->count];
        const struct tutti_axis axis = tutti_parallel_axis(cut, kinds[k].group);

        if (axis.size < 2 || !is_shown(cut, kinds[k].group))
            continue;
        *group = (struct tutti_train_parallel_group){
            .kind = kinds[k].group, .name = kinds[k].name, .what = kinds[k].what, .axis = axis};
        if (kinds[k].group == TUTTI_GROUP_DATA && cut->context > 1)
            group->name = "cp x dp";
        for (uint32_t i = 0; i < tutti_axis_group_count(&axis); i++)
            place_group(topo, &axis, i, group);
        ret->count++;
    }
}

/* "inside a host", "across 4 hosts, 2 of each" */
static const char *lies_text(const struct tutti_train_parallel_group *g, char buf[LIES_BYTES])
{
    buf[0] = '\0';
    if (g->host_count == 1)
        (void)snprintf(buf, LIES_BYTES, " inside a host");
    else if (g->of_host == 1)
        (void)snprintf(buf, LIES_BYTES, " across %u hosts", g->host_count);
    else if (g->host_count > 1)
        (void)snprintf(buf, LIES_BYTES, " across %u hosts, %u on each", g->host_count, g->of_host);
    return buf;
}

void tutti_train_parallel_groups_print(const struct tutti_train_parallel_groups *groups, FILE *out)
{
    char lies[LIES_BYTES];

    if (groups->count == 0)
        return;
    fprintf(out, "# groups:   ");
    for (uint32_t i = 0; i < groups->count; i++) {
        const struct tutti_train_parallel_group *g = &groups->group[i];

        fprintf(out, "%s%s %u%s", i > 0 ? "; " : "", g->name, g->axis.size, lies_text(g, lies));
    }
    fputc('\n', out);
}

void tutti_train_parallel_groups_json(const struct tutti_train_parallel_groups *groups,
                                      struct tutti_json *json)
{
    tutti_json_open(json, "groups", '[');
    for (uint32_t i = 0; i < groups->count; i++) {
        const struct tutti_train_parallel_group *g = &groups->group[i];

        tutti_json_open(json, NULL, '{');
        tutti_json_text(json, "group", g->name);
        tutti_json_text(json, "carries", g->what);
        tutti_json_count(json, "ranks", g->axis.size);
        tutti_json_count(json, "stride", g->axis.stride);
        tutti_json_count(json, "hosts", g->host_count);
        tutti_json_count(json, "ranks_on_host", g->of_host);
        tutti_json_close(json);
    }
    tutti_json_close(json);
}
