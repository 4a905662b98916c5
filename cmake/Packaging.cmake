# What is installed where, and the Debian packages that CPack makes of it (scripts/package): trimtab (the command, the Python client,
# what training processes load), trimtab-agent, trimtab-coordinator.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # The packages need neither tests nor benchmarks to be built.

install(PROGRAMS $<TARGET_FILE:trimtab> DESTINATION bin COMPONENT trimtab)
install(FILES $<TARGET_FILE:trimtab-inject> ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/libnccl-profiler-trimtab.so
              ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/libnccl-tuner-trimtab.so
        DESTINATION lib/trimtab COMPONENT trimtab)
if(TARGET trimtab-nvtx)
  install(FILES $<TARGET_FILE:trimtab-nvtx> DESTINATION lib/trimtab COMPONENT trimtab)
endif()
if(TARGET trimtab-gpu-bench)
  install(PROGRAMS $<TARGET_FILE:trimtab-gpu-bench> DESTINATION bin COMPONENT trimtab OPTIONAL)
endif()
install(DIRECTORY client/include/trimtab DESTINATION include COMPONENT trimtab)
install(DIRECTORY client/python/trimtab DESTINATION lib/python3/dist-packages COMPONENT trimtab
        FILES_MATCHING PATTERN "*.py")
# What trimtab.megatron_benchmark runs.
install(DIRECTORY trainer/ DESTINATION lib/python3/dist-packages/trimtab/reference_trainer COMPONENT trimtab
        FILES_MATCHING PATTERN "*.py")
# What a watched job's PYTHONPATH begins with: a folder that holds nothing else, or the system's packages would hide those of a user's
# virtual environment.
install(DIRECTORY client/python/watch_hook DESTINATION lib/trimtab/python COMPONENT trimtab FILES_MATCHING PATTERN "*.py")
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/installed-client)
file(CREATE_LINK ../../python3/dist-packages/trimtab ${CMAKE_BINARY_DIR}/installed-client/trimtab SYMBOLIC)
install(FILES ${CMAKE_BINARY_DIR}/installed-client/trimtab DESTINATION lib/trimtab/python COMPONENT trimtab)
install(FILES README.md CHANGELOG.md DESTINATION share/doc/trimtab COMPONENT trimtab)
install(DIRECTORY docs/ DESTINATION share/doc/trimtab COMPONENT trimtab FILES_MATCHING PATTERN "*.md")
# Manual pages and completion files, which scripts/package has the programs write.
install(DIRECTORY ${CMAKE_BINARY_DIR}/shell-files/ DESTINATION share COMPONENT trimtab OPTIONAL)
install(DIRECTORY examples DESTINATION share/doc/trimtab COMPONENT trimtab)
install(DIRECTORY packaging/kubernetes packaging/grafana packaging/prometheus DESTINATION share/doc/trimtab
        COMPONENT trimtab)

install(PROGRAMS $<TARGET_FILE:trimtab-agent> DESTINATION bin COMPONENT agent)
install(FILES packaging/systemd/trimtab-agent.service packaging/systemd/trimtab-agent@.service
        DESTINATION /lib/systemd/system COMPONENT agent)
install(FILES packaging/etc/agent.toml DESTINATION /etc/trimtab COMPONENT agent)
install(FILES packaging/logrotate/trimtab DESTINATION /etc/logrotate.d COMPONENT agent)
install(PROGRAMS packaging/slurm/prolog packaging/slurm/epilog packaging/slurm/task-prolog DESTINATION lib/trimtab/slurm
        COMPONENT agent)
install(FILES packaging/slurm/places packaging/slurm/tune.sbatch DESTINATION lib/trimtab/slurm COMPONENT agent)

install(PROGRAMS $<TARGET_FILE:trimtab-coordinator> DESTINATION bin COMPONENT coordinator)
install(FILES packaging/systemd/trimtab-coordinator.service DESTINATION /lib/systemd/system COMPONENT coordinator)
install(FILES packaging/etc/coordinator.toml DESTINATION /etc/trimtab COMPONENT coordinator)

set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL trimtab agent coordinator)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_SET_DESTDIR ON)  # Files of the system have absolute places.
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_CONTACT "Trimtab <trimtab@localhost>")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1 CACHE STRING "Revision of the Debian packages")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(debian ${CMAKE_SOURCE_DIR}/packaging/debian)

set(CPACK_DEBIAN_TRIMTAB_PACKAGE_NAME trimtab)
set(CPACK_DEBIAN_TRIMTAB_DESCRIPTION "profiling and autotuning of large-model training: the command
The command trimtab, the Python client of training programs, and the libraries that training processes load to be
measured: ranges, kernels by CUPTI, collectives by NCCL's profiler plugin.")
set(CPACK_DEBIAN_TRIMTAB_PACKAGE_DEPENDS "python3 (>= 3.9)")
set(CPACK_DEBIAN_TRIMTAB_PACKAGE_RECOMMENDS "trimtab-agent, trimtab-coordinator")

set(CPACK_DEBIAN_AGENT_PACKAGE_NAME trimtab-agent)
set(CPACK_DEBIAN_AGENT_DESCRIPTION "profiling and autotuning of large-model training: the node daemon
Runs on each node beside the training processes: measures them, starts and stops their trials, and keeps what was
measured until the coordinator has it.")
set(CPACK_DEBIAN_AGENT_PACKAGE_DEPENDS adduser)

set(CPACK_DEBIAN_COORDINATOR_PACKAGE_NAME trimtab-coordinator)
set(CPACK_DEBIAN_COORDINATOR_DESCRIPTION "profiling and autotuning of large-model training: the cluster daemon
One for each cluster: merges what the nodes measured, searches for plans, tries them on the running job, and keeps the
fastest.")
set(CPACK_DEBIAN_COORDINATOR_PACKAGE_DEPENDS adduser)
# Of one release all: they depend on trimtab of the same version.
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
set(CPACK_COMPONENT_AGENT_DEPENDS trimtab)
set(CPACK_COMPONENT_COORDINATOR_DEPENDS trimtab)
foreach(component trimtab agent coordinator)
  string(TOUPPER ${component} upper)
  file(GLOB CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA ${debian}/${component}/*)
endforeach()
include(CPack)
