// The same as consumer.c, in C++11, where a struct is zeroed by {} and filled afterwards; and a
// schedule that it plays itself, by threads.
#include <cstdio>
#include <vector>

#include "runtime/status.h"
#include "runtime/threads.h"
#include "sim/predict.h"
#include "topo/topo.h"

namespace
{

int predict(const tutti_topo *machine, tutti_err *err)
{
    tutti_answer answer;
    tutti_ask ask = tutti_ask();
    int status;

    ask.size = sizeof(ask);
    ask.topo = machine;
    ask.params.count = 4 << 20;
    status = tutti_predict(&ask, &answer, err);
    if (status == 0)
        std::printf("%s %s %llu %lld\n", answer.algorithm, answer.protocol,
                    static_cast<unsigned long long>(answer.bytes),
                    static_cast<long long>(answer.time_ps));
    return status;
}

// Two threads add up 1 + 2, really.
int play(tutti_err *err)
{
    std::vector<float> a(1024, 1.0f), b(1024, 2.0f);
    const void *in[] = {a.data(), b.data()};
    void *out[] = {a.data(), b.data()};
    tutti_coll_params params = tutti_coll_params();
    tutti_shape shape = tutti_shape_flat(2);
    tutti_schedule *schedule = nullptr;
    tutti_backend *backend = nullptr;
    tutti_played played;
    tutti_play play = tutti_play();
    int status;

    params.count = a.size();
    status = tutti_coll_generate("ring", &params, &shape, &schedule, err);
    if (status == 0)
        status = tutti_threads_open(nullptr, &backend, err);
    play.size = sizeof(play);
    play.schedule = schedule;
    play.in = in;
    play.out = out;
    play.iteration_count = 1;
    if (status == 0)
        status = tutti_backend_play(backend, &play, &played, err);
    if (status == 0 && (a[0] != 3.0f || b[1023] != 3.0f))
        status = tutti_fail(err, TUTTI_ECHECK, "1 + 2 is %g", static_cast<double>(a[0]));
    tutti_backend_close(backend);
    tutti_schedule_free(schedule);
    return status;
}

} // namespace

int main(int argc, char **argv)
{
    tutti_topo *machine = nullptr;
    tutti_err err;
    int status = tutti_topo_from_spec(argc > 1 ? argv[1] : "dgx-h100", &machine, &err);

    if (status == 0)
        status = predict(machine, &err);
    if (status == 0)
        status = play(&err);
    if (status != 0)
        std::fprintf(stderr, "consumer: %s\n", err.text);
    tutti_topo_free(machine);
    return status == 0 ? 0 : 1;
}
