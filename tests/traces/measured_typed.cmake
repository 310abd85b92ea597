# The tables that were typed off pages follow from their figures; skipped without Python.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(Python3_FOUND)
    add_test(NAME measured_typed COMMAND Python3::Interpreter
             ${CMAKE_SOURCE_DIR}/traces/measured/convert.py --typed --check)
    add_test(NAME training_typed COMMAND Python3::Interpreter
             ${CMAKE_SOURCE_DIR}/traces/measured/training/convert.py --typed --check)
endif()
