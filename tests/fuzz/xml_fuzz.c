/* Fuzzes NCCL topology XML: what is read is a whole machine, and what is refused says why. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/judge.h"
#include "traces/nccl_xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};
    int status = tutti_nccl_xml_parse("fuzz", (const char *)data, bytes, &topo, &err);

    JUDGE(status != -TUTTI_ELACK || !tutti_nccl_xml_available());
    if (status == 0)
        judge_topo(topo);
    else
        judge_refusal(status, &err);
    tutti_topo_free(topo);
    return 0;
}
