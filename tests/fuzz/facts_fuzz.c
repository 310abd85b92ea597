/* Fuzzes facts of machines: what parses prints to what parses the same, and what becomes a machine
 * is whole. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/judge.h"
#include "topo/local.h"

/* By all GPUs or cores, and by several ranks. */
static void make(struct tutti_facts *facts, uint32_t ranks)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};
    int status = tutti_topo_of_facts(facts, "fuzz", ranks, &topo, &err);

    if (status == 0 && topo->rank_count <= 64)
        judge_topo(topo);
    else if (status < 0)
        judge_refusal(status, &err);
    tutti_topo_free(topo);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tutti_facts *facts = NULL;
    struct tutti_facts *again = NULL;
    struct tutti_err err = {""};
    char *text = NULL;
    char *second = NULL;
    int status = tutti_facts_parse("fuzz", (const char *)data, bytes, &facts, &err);

    if (status < 0) {
        judge_refusal(status, &err);
        return 0;
    }
    make(facts, 0);
    make(facts, 4);
    if (tutti_facts_print(facts, &text, NULL) != 0 ||
        tutti_facts_parse("again", text, strlen(text), &again, NULL) != 0 ||
        tutti_facts_print(again, &second, NULL) != 0 || strcmp(text, second) != 0)
        abort();
    tutti_facts_free(facts);
    tutti_facts_free(again);
    free(text);
    free(second);
    return 0;
}
