/* The option --perturb; see perturb.h. */
#include "tools/cli/perturb.h"

#include <inttypes.h>
#include <stdlib.h>

#include "runtime/status.h"

int tutti_perturb_read(const struct tutti_args *args, bool starts, struct tutti_perturb *ret,
                       struct tutti_err *err)
{
    const char *words = tutti_args_text(args, "perturb");
    const struct tutti_perturb_item *start;
    int status = 0;

    ret->item_count = 0;
    if (words != NULL)
        status = tutti_perturb_add(ret, words, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '--perturb'");
    start = tutti_perturb_find(ret, TUTTI_PERTURB_START);
    if (start == NULL || starts)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "option '--perturb': '%s' is about ranks that run (predict or compare), here "
                      "is a machine alone (slow-link=, slow-node=, latency=, rates= or ecmp=)",
                      start->text);
}

int tutti_perturb_machine(struct tutti_topo *topo, struct tutti_perturb *perturb, uint64_t seed,
                          struct tutti_err *err)
{
    int status = tutti_topo_perturb(topo, perturb, seed, err);

    return status == -TUTTI_EINVAL ? tutti_wrap(err, status, "option '--perturb'") : status;
}

char *tutti_perturb_text(const struct tutti_perturb *perturb, uint64_t seed)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    if (out == NULL)
        return NULL;
    for (uint32_t i = 0; i < perturb->item_count; i++)
        fprintf(out, "%s%s", i > 0 ? "," : "", perturb->items[i].text);
    if (perturb->item_count > 0)
        fprintf(out, " (seed %" PRIu64 ")", seed);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

static void print_item(const struct tutti_perturb_item *item, FILE *out)
{
    bool drawn = item->whom == TUTTI_PERTURB_COUNT || item->whom == TUTTI_PERTURB_PERCENT;

    fputs(item->text, out);
    if (item->kind == TUTTI_PERTURB_ECMP)
        return; /* it was done, and there is no count of it */
    fputs(" (", out);
    if (drawn && item->kind == TUTTI_PERTURB_SLOW_NODE)
        fprintf(out, "%" PRIu64 " node%s, ", item->host_count, item->host_count == 1 ? "" : "s");
    if (item->kind == TUTTI_PERTURB_START)
        fprintf(out, "%" PRIu64 " late rank%s", item->rank_count, item->rank_count == 1 ? "" : "s");
    else
        fprintf(out, "%" PRIu64 " link%s", item->link_count, item->link_count == 1 ? "" : "s");
    if (drawn && item->first[0] != '\0')
        fprintf(out, ", first %s", item->first);
    fputc(')', out);
}

void tutti_perturb_print(const struct tutti_perturb *perturb, uint64_t seed, const char *label,
                         FILE *out)
{
    for (uint32_t i = 0; i < perturb->item_count; i++) {
        fputs(i == 0 ? label : ", ", out);
        print_item(&perturb->items[i], out);
    }
    if (perturb->item_count > 0)
        fprintf(out, ", seed %" PRIu64 "\n", seed);
}

void tutti_perturb_json(const struct tutti_perturb *perturb, uint64_t seed, struct tutti_json *json)
{
    if (perturb->item_count == 0)
        return;
    tutti_json_open(json, "perturb", '{');
    tutti_json_count(json, "seed", seed);
    tutti_json_open(json, "items", '[');
    for (uint32_t i = 0; i < perturb->item_count; i++) {
        const struct tutti_perturb_item *item = &perturb->items[i];

        tutti_json_open(json, NULL, '{');
        tutti_json_text(json, "kind", tutti_perturb_kind_name(item->kind));
        tutti_json_text(json, "item", item->text);
        tutti_json_count(json, "nodes", item->host_count);
        tutti_json_count(json, "links", item->link_count);
        tutti_json_count(json, "ranks", item->rank_count);
        tutti_json_text(json, "first", item->first[0] != '\0' ? item->first : NULL);
        tutti_json_close(json);
    }
    tutti_json_close(json);
    tutti_json_close(json);
}
