/* Fuzzes the text form of machines: what parses is whole, and prints to what parses the same. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/judge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};
    int status = tutti_topo_parse("fuzz", (const char *)data, bytes, &topo, &err);

    if (status == 0)
        judge_topo(topo);
    else
        judge_refusal(status, &err);
    tutti_topo_free(topo);
    return 0;
}
