/* Fuzzes SPECs: a machine that is built is whole and prints to a text that reads back the same;
 * one that is refused says why in one line. */
#include <ctype.h>
#include <stdbool.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/judge.h"

/* Counts that are worth building, multiplied. Larger machines are refused up front or cost what
 * they must; tests/topo/presets_test.c looks at those. A fat tree raises one count to the power of
 * another: its are cubed. */
enum { PRODUCT_MAX = 128, TREE_PRODUCT_MAX = 1 << 13, BYTES_MAX = 200 };

/* Whether the whole numbers that may be counts, those without a unit, make a small machine. */
static bool is_small(const char *spec)
{
    bool tree = strncmp(spec, "fattree", 7) == 0;
    uint64_t most = tree ? TREE_PRODUCT_MAX : PRODUCT_MAX;
    uint64_t product = 1;

    if (strstr(spec, "slices") != NULL && strchr(spec, 'x') == NULL)
        return false; /* slices of the standard grid are hundreds of chips each */
    for (const char *p = spec; *p != '\0' && product <= most;) {
        char *end;
        uint64_t number;

        if (!isdigit((unsigned char)*p)) {
            p++;
            continue;
        }
        number = strtoull(p, &end, 10);
        p = end;
        if ((isalpha((unsigned char)*p) && *p != 'x') || *p == '.' || number < 2)
            continue;
        number = number > most ? most + 1 : number;
        product *= tree ? number * number * number : number;
    }
    return product <= most;
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
    if (!is_small(spec))
        return 0;
    status = tutti_topo_from_spec(spec, &topo, &err);
    if (status == 0)
        judge_topo(topo);
    else
        judge_refusal(status, &err);
    tutti_topo_free(topo);
    return 0;
}
