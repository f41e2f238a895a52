"""Chips, slices and links: their stated bandwidths, and the busbw that they allow.

If no bandwidth can be trusted, there is no ceiling, because a wrong ceiling would be worse. This
package imports the model and the collectives, and judges no measurement.
"""
