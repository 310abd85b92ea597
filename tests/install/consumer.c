/* A program of another house that asks the installed library, in C; consumer.cc is the same in C++.
 * With nothing said but the machine, it prints what `tutti predict SPEC -b 16M -e 16M` says. */
#include <inttypes.h>
#include <stdio.h>

#include "runtime/status.h"
#include "sim/predict.h"
#include "topo/topo.h"

int main(int argc, char **argv)
{
    struct tutti_topo *machine = NULL;
    struct tutti_answer answer;
    struct tutti_err err;
    int status = tutti_topo_from_spec(argc > 1 ? argv[1] : "dgx-h100", &machine, &err);

    if (status == 0) {
        struct tutti_ask ask = {.size = sizeof(ask), .topo = machine, .params = {.count = 4 << 20}};

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
