/* A program of another house that asks the installed library, in C; consumer.cc is the same in C++.
 * What it prints is what `tutti predict dgx-h100:nodes=2 -b 16M -e 16M` says. */
#include <inttypes.h>
#include <stdio.h>

#include "runtime/status.h"
#include "sim/calib.h"
#include "sim/predict.h"
#include "topo/topo.h"

int main(void)
{
    struct tutti_topo *machine = NULL;
    struct tutti_calibrated costs;
    struct tutti_answer answer;
    struct tutti_err err;
    int status = tutti_topo_from_spec("dgx-h100:nodes=2", &machine, &err);

    if (status == 0)
        status = tutti_calibrated_for(machine, &costs, &err);
    if (status == 0) {
        struct tutti_ask ask = {.size = sizeof(ask),
                                .topo = machine,
                                .algorithm = "auto",
                                .params = {.count = 4 << 20},
                                .protocol = "auto",
                                .protocols = costs.protocols,
                                .model = TUTTI_MODEL_FAIR};

        status = tutti_predict(&ask, &answer, &err);
    }
    if (status == 0)
        printf("%s %s %" PRIu64 " %" PRId64 "\n", answer.algorithm, answer.protocol, answer.bytes,
               answer.time_ps);
    else
        fprintf(stderr, "consumer: %s\n", err.text);
    tutti_topo_free(machine);
    return status == 0 ? 0 : 1;
}
