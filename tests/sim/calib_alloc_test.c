/* Every allocation of calibrations made to fail once. */
#include "sim/calib.h"
#include "tests/alloc_fail.h"
#include "topo/topo.h"

static const char SOME[] = "calibration some\n"
                           "source fit f\n"
                           "any.any.ll.step_us 1 fit\n"
                           "any.any.ll128.step_us 1 0.5 2\n";

/* Reads, copies, changes and prints one; enough values that arrays grow. */
static int use(struct tutti_err *err)
{
    struct tutti_calib *calib = NULL;
    struct tutti_calib *copy = NULL;
    char *text = NULL;
    int status = tutti_calib_parse("some", SOME, sizeof(SOME) - 1, &calib, err);

    if (status == 0)
        status = tutti_calib_copy(calib, &copy, err);
    for (size_t i = 0; status == 0 && tutti_calib_gpu_name(i) != NULL; i++) {
        struct tutti_calib_value value = {.value = 1, .low = 0, .high = 2, .source = "more"};
        char name[TUTTI_CALIB_NAME_BYTES];

        snprintf(name, sizeof(name), "%s.any.ll.slice_us", tutti_calib_gpu_name(i));
        status = tutti_calib_set_source(copy, "more", "of them", err);
        if (status == 0)
            status = tutti_calib_set(copy, name, &value, err);
    }
    if (status == 0)
        status = tutti_calib_set_title(copy, "changed", err);
    if (status == 0)
        status = tutti_calib_print(copy, &text, err);
    free(text);
    tutti_calib_free(copy);
    tutti_calib_free(calib);
    return status;
}

static int builtin(const struct tutti_topo *topo, struct tutti_err *err)
{
    struct tutti_calibrated made;

    return tutti_calibrated_for(topo, &made, err);
}

TEST(calibrations_fail_cleanly)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_from_spec("dgx-h100", &topo, &err), err);
    ALLOC_FAIL_EACH(use(&err), err);
    ALLOC_FAIL_EACH(builtin(topo, &err), err);
    tutti_topo_free(topo);
}
