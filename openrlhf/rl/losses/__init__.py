"""Losses over packed streams.

    LossStreams  -> select loss tokens -> ppo | gspo | cispo -> importance weights -> aggregate -> LossShare
    ValueStreams -> select loss tokens -> clipped square error                     -> aggregate -> LossShare

A loss is a mean over the WHOLE optimiser step: every rank and every micro-batch. Its denominators arrive as
`StepTotals`, so what a rank computes for a micro-batch is its SHARE of the loss: shares add up to the loss, whatever
the layout. An engine that averages gradients over data-parallel ranks needs the share multiplied by the number of
ranks, and one that divides by the accumulation steps needs it multiplied by those: that is the caller's part.

Only loss tokens take part: they are selected before any arithmetic, because NaN * 0 is NaN, in the gradient as well.
What is broken at a loss token comes out as NaN, and `check_finite` stops the step.
"""
