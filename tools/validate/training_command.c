/* Tables of training steps, simulated and reported on; see training_command.h. */
#include "tools/validate/training_command.h"

#include "runtime/status.h"
#include "tools/cli/calib.h"
#include "tools/validate/training_predict.h"
#include "tools/validate/training_run.h"
#include "tools/validate/validate_options.h"

int tutti_validate_training(const struct tutti_args *args, struct tutti_sink *sink,
                            struct tutti_err *err)
{
    const char *paths[TUTTI_VALIDATE_OPERANDS_MAX];
    struct tutti_training_report report = {
        .paths = paths,
        .anchor = tutti_args_text(args, "anchor"),
        .format = tutti_args_is(args, "format", "json")  ? TUTTI_TRAINING_JSON
                  : tutti_args_is(args, "format", "csv") ? TUTTI_TRAINING_CSV
                                                         : TUTTI_TRAINING_TABLE,
    };
    struct tutti_training_simulator *simulator = NULL;
    struct tutti_calib_option calib = {.layer_count = 0};
    bool given = tutti_args_given(args, "calib");
    const char *path;
    int status = given ? tutti_calib_option_read(args, &calib, err) : 0;

    if (status == 0)
        status = tutti_training_simulator_new(given ? &calib : NULL, &simulator, err);
    if (status < 0) {
        tutti_calib_option_done(&calib);
        return status;
    }
    report.costs = given ? tutti_calib_option_title(&calib) : NULL;
    while ((path = tutti_args_operand(args, (uint32_t)report.path_count)) != NULL)
        paths[report.path_count++] = path;
    report.predictor = tutti_training_simulate(simulator);
    if (tutti_args_given(args, "limit"))
        report.limit_percent = tutti_args_real(args, "limit");
    status = tutti_training_report(&report, sink, err);
    tutti_training_simulator_free(simulator);
    tutti_calib_option_done(&calib);
    return status;
}
