/* Fuzzes the text form of models: what parses is printed and parsed again, and must be the same the
 * second time, its sums included. */
#include <stdlib.h>
#include <string.h>

#include "runtime/model.h"
#include "runtime/status.h"
#include "tests/fuzz/fuzz.h"

/* parse(print(m)) prints the same text and has the same sums. */
static void round_trip(const struct tutti_workload *model)
{
    struct tutti_model_sums sums = tutti_model_sum(model);
    struct tutti_model_sums again;
    struct tutti_workload *back = NULL;
    struct tutti_err err;
    char *first = NULL;
    char *second = NULL;

    if (tutti_model_print(model, &first, &err) != 0)
        abort();
    if (tutti_model_parse("printed", first, strlen(first), &back, &err) != 0)
        abort();
    if (tutti_model_print(back, &second, &err) != 0 || strcmp(first, second) != 0)
        abort();
    again = tutti_model_sum(back);
    if (memcmp(&sums, &again, sizeof(sums)) != 0)
        abort();
    free(first);
    free(second);
    tutti_model_free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tutti_workload *model = NULL;
    struct tutti_err err = {""};
    int status = tutti_model_parse("fuzz", (const char *)data, bytes, &model, &err);

    if (status != 0) {
        if (status != -TUTTI_EINVAL || strncmp(err.text, "fuzz: line ", 11) != 0)
            abort();
        return 0;
    }
    round_trip(model);
    tutti_model_free(model);
    return 0;
}
