# What is tested of the laboratory lies in its library.
target_link_libraries(accuracy_test PRIVATE tutti_fit_static)
