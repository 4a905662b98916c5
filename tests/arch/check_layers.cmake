cmake_minimum_required(VERSION 3.25)
# An edge that the table does not allow must stop the configure step. Run with cmake -P.
execute_process(
  COMMAND ${CMAKE_COMMAND} -DLAYERS_FILE=${LAYERS_FILE} -DEDGE_FROM=tuner -DEDGE_TO=net -P ${CMAKE_CURRENT_LIST_DIR}/try_edge.cmake
  RESULT_VARIABLE refused OUTPUT_QUIET ERROR_VARIABLE message)
if(refused EQUAL 0 OR NOT message MATCHES "tuner must not depend on net")
  message(FATAL_ERROR "the edge tuner -> net was not refused: ${message}")
endif()
execute_process(
  COMMAND ${CMAKE_COMMAND} -DLAYERS_FILE=${LAYERS_FILE} -DEDGE_FROM=coordinator -DEDGE_TO=tuner -P ${CMAKE_CURRENT_LIST_DIR}/try_edge.cmake
  RESULT_VARIABLE refused ERROR_VARIABLE message)
if(NOT refused EQUAL 0)
  message(FATAL_ERROR "the edge coordinator -> tuner was refused: ${message}")
endif()
# No daemon links the published models.
foreach(daemon tuning simulation coordinator agent)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -DLAYERS_FILE=${LAYERS_FILE} -DEDGE_FROM=${daemon} -DEDGE_TO=papers -P ${CMAKE_CURRENT_LIST_DIR}/try_edge.cmake
    RESULT_VARIABLE refused OUTPUT_QUIET ERROR_VARIABLE message)
  if(refused EQUAL 0 OR NOT message MATCHES "${daemon} must not depend on papers")
    message(FATAL_ERROR "the edge ${daemon} -> papers was not refused: ${message}")
  endif()
endforeach()
