cmake_minimum_required(VERSION 3.25)
include(${LAYERS_FILE})
check_layer_edges(${EDGE_FROM} ${EDGE_TO})
