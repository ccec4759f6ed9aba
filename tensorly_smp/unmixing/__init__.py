"""Stages of a fit with a linear map shared by all components: samples come in; the map and its mixture go out."""
