/* Fuzzes SPECs: a machine that is built is whole and prints to a text that reads back the same;
 * one that is refused says why in one line. */
#include <ctype.h>
#include <stdbool.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/judge.h"

/* Products of counts that are worth building. Larger machines are refused up front or cost what
 * they must; tests/presets_test.c looks at those. */
enum { DEVICES_MAX = 1024, BYTES_MAX = 200 };

/* The product of the whole numbers that may be counts: what is not followed by a unit. A fat tree
 * raises one of them to the power of another. */
static uint64_t product_of_counts(const char *spec)
{
    uint64_t product = 1;
    bool tree = strncmp(spec, "fattree", 7) == 0;

    for (const char *p = spec; *p != '\0';) {
        char *end;
        uint64_t number;

        if (!isdigit((unsigned char)*p)) {
            p++;
            continue;
        }
        number = strtoull(p, &end, 10);
        if ((!isalpha((unsigned char)*end) || *end == 'x') && *end != '.' && number > 1)
            product = number > DEVICES_MAX ? DEVICES_MAX + 1 : product * number;
        if (tree && number > 1 && number <= DEVICES_MAX)
            product *= number * number;
        if (product > DEVICES_MAX)
            return product;
        p = end;
    }
    return product;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};
    char spec[BYTES_MAX + 1];
    int status;

    if (bytes > BYTES_MAX)
        return 0;
    if (bytes > 0)
        memcpy(spec, data, bytes);
    spec[bytes] = '\0';
    if (product_of_counts(spec) > DEVICES_MAX)
        return 0;
    status = tutti_topo_from_spec(spec, &topo, &err);
    if (status == 0)
        judge_topo(topo);
    else
        judge_refusal(status, &err);
    tutti_topo_free(topo);
    return 0;
}
