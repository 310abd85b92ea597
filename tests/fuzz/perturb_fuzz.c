/* Fuzzes lists of perturbations: one that is read changes a small machine, or is refused for what
 * it names, in one line; the machine is whole either way. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/judge.h"
#include "topo/perturb.h"

enum { BYTES_MAX = 2000 };

/* Host by host, and devices alone. */
static const char *const specs[] = {"dgx-h100:nodes=2", "ring:n=3"};

static void disturb(const char *spec, struct tutti_perturb *perturb)
{
    struct tutti_topo *topo = NULL;
    tutti_ps *starts = NULL;
    struct tutti_err err = {""};
    int status = tutti_topo_from_spec(spec, &topo, &err);

    if (status < 0)
        abort();
    status = tutti_topo_perturb(topo, perturb, 1, &err);
    if (status < 0)
        judge_refusal(status, &err);
    judge_topo(topo);
    if (tutti_perturb_starts(perturb, 1, topo->rank_count, &starts, &err) == 0)
        free(starts);
    tutti_topo_free(topo);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct tutti_perturb perturb; /* large */
    struct tutti_err err = {""};
    char words[BYTES_MAX + 1];
    int status;

    if (bytes > BYTES_MAX)
        return 0;
    if (bytes > 0)
        memcpy(words, data, bytes);
    words[bytes] = '\0';
    perturb.item_count = 0;
    status = tutti_perturb_add(&perturb, words, &err);
    if (status < 0)
        judge_refusal(status, &err);
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]) && status == 0; i++)
        disturb(specs[i], &perturb);
    return 0;
}
